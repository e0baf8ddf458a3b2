/* The innermost loop of the scan, in C: what it is made of stands in walk.h, search.h and tally.h.
 *
 * walk.py and tally.py say the same in Python. They are the specification, and what runs where this was not compiled;
 * the tests hold both to one result. Offsets are bytes.
 */
#include "walk.h"

#define INTERFACE 2 /* walk.py has the same number: to be changed with what is called, and how */

static PyObject *
count_line_ends(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (!is_bytes(object)) {
        return NULL;
    }
    const char *data = PyBytes_AsString(object);
    Py_ssize_t left = PyBytes_Size(object), total = 0;
    while (left > 0) {
        /* as many as a byte can count: compilers turn this into vector instructions */
        unsigned char lanes[64] = {0};
        Py_ssize_t rounds = left / 64 < 255 ? left / 64 : 255;
        if (rounds == 0) {
            for (Py_ssize_t i = 0; i < left; i++) {
                total += data[i] == '\n';
            }
            break;
        }
        for (Py_ssize_t round = 0; round < rounds; round++, data += 64) {
            for (int i = 0; i < 64; i++) {
                lanes[i] += data[i] == '\n';
            }
        }
        for (int i = 0; i < 64; i++) {
            total += lanes[i];
        }
        left -= rounds * 64;
    }
    return PyLong_FromSsize_t(total);
}

static PyMethodDef functions[] = {
    {"line_ends", count_line_ends, METH_O, "line_ends(data): how many line ends there are."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "The scan's innermost loop.", -1, functions, NULL, NULL, NULL, NULL};

static PyTypeObject *
add_type(PyObject *into, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL || PyModule_AddType(into, (PyTypeObject *)type) < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

PyMODINIT_FUNC
PyInit__native(void)
{
    PyObject *made = PyModule_Create(&module), *salt = PyUnicode_FromString("slurmdoctor");
    if (made == NULL || salt == NULL) {
        return NULL;
    }
    seed = (uint64_t)PyObject_Hash(salt);
    Py_DECREF(salt);
    search_type = add_type(made, &search_spec);
    tally_type = add_type(made, &tally_spec);
    walk_type = add_type(made, &walk_spec);
    if (search_type == NULL || tally_type == NULL || walk_type == NULL ||
        PyModule_AddIntConstant(made, "INTERFACE", INTERFACE) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
