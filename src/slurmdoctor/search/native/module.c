/* The innermost loop of the scan, in C: what it is made of stands in walk.h, search.h and tally.h.
 *
 * tally.py says the same in Python. It is the specification, and what runs where this was not compiled;
 * the tests hold both to one result. Offsets are bytes.
 */
#include "walk.h"

#define INTERFACE 3 /* matching/engine.py has the same number: to be changed with what is called, and how */

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

/* How far from their own slots these keys stand, in all: the steps that it costs to find each once. */
static PyObject *
steps_to_find(PyObject *Py_UNUSED(module), PyObject *list)
{
    if (!PyList_Check(list)) {
        return PyErr_Format(PyExc_TypeError, "a list of bytes is expected");
    }
    Table table = {0};
    void *items = NULL;
    uint64_t steps = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        PyObject *item = PyList_GetItem(list, i);
        if (!is_bytes(item) || table_grow(&table, &items, sizeof(Key)) < 0) {
            break;
        }
        /* the list holds the bytes for as long as they are looked at */
        Key *key = (Key *)items + table.count;
        key->bytes = PyBytes_AsString(item);
        key->length = PyBytes_Size(item);
        key->hash = hash_of(key->bytes, key->length);
        table_put(&table, key->hash, table.count++);
    }
    for (size_t slot = 0; table.slots != NULL && slot <= table.mask; slot++) {
        if (table.slots[slot]) {
            steps += (slot - ((Key *)items)[table.slots[slot] - 1].hash) & table.mask;
        }
    }
    Py_ssize_t missing = PyList_Size(list) - table.count;
    PyMem_Free(items);
    PyMem_Free(table.slots);
    if (missing) {
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    return PyLong_FromUnsignedLongLong(steps);
}

/* Draw the key of the hash. */
static int
draw_key(void)
{
    PyObject *os = PyImport_ImportModule("os");
    PyObject *drawn = os ? PyObject_CallMethod(os, "urandom", "n", (Py_ssize_t)sizeof(hash_key)) : NULL;
    int done = drawn != NULL && is_bytes(drawn) && PyBytes_Size(drawn) == (Py_ssize_t)sizeof(hash_key);
    if (done) {
        memcpy(hash_key, PyBytes_AsString(drawn), sizeof(hash_key));
    }
    Py_XDECREF(drawn);
    Py_XDECREF(os);
    return done ? 0 : -1;
}

static PyMethodDef functions[] = {
    {"steps_to_find", steps_to_find, METH_O, "steps_to_find(list of bytes): how far from their slots they stand, in all."},
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
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || draw_key() < 0) {
        Py_XDECREF(made);
        return NULL;
    }
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
