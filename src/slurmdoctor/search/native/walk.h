/* Walk: goes from line to line that holds a word, and counts what it knows; tally.Walk in C. */
#pragma once
#include "search.h"
#include "tally.h"

#define LONGEST_SHAPE 16384 /* reader.LONG_LINE: longer lines are read piece by piece, in Python */

#define BY_DIGITS -2
#define MARK 1 /* shapes.BYTE */

typedef struct {
    Key shape;
    Py_ssize_t begin, end; /* of the label */
    Py_ssize_t text;       /* where what follows decides, digits and all: looked up behind the shape; -1 for none */
                           /* BY_DIGITS: such lines are looked up again by a shape without marks */
    Tally *tally;
    PyObject *rest;
} Plan;

typedef struct {
    PyObject_HEAD
    Table table;
    Plan *plans;
    PyObject *data;
    Search *search;
    Py_ssize_t size; /* bytes of the data that count */
    int64_t base;
    Py_ssize_t at; /* the end of the last line */
    char shape[2 * LONGEST_SHAPE + 1]; /* of the line, and behind it the text of one whose digits matter */
} Walk;

static inline int
is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static inline int
is_hex_letter(char c)
{
    return (unsigned char)(c - 'a') < 6;
}

static inline int
is_of_word(char c)
{
    return is_digit(c) || c == '_' || (unsigned char)((c | 32) - 'a') < 26;
}

/* Write the line to the shape, with every digit as 0. */
static void
shape_by_digits(char *shape, const char *line, Py_ssize_t length)
{
    for (Py_ssize_t i = 0; i < length; i++) {
        shape[i] = (unsigned char)(line[i] - '1') < 9 ? '0' : line[i];
    }
}

/* Put marks for the hexadecimal words of a line into its shape; shapes.marked says which words these are. */
static void
shape_marks(char *shape, const char *line, Py_ssize_t length)
{
    for (Py_ssize_t i = 0; i < length; i++) {
        if (!is_of_word(line[i])) {
            continue;
        }
        Py_ssize_t begin = i, digits = 0, letters = 0;
        if (line[i] == '0' && i + 1 < length && line[i + 1] == 'x') {
            begin = i += 2;
        }
        for (; i < length && is_of_word(line[i]); i++) {
            digits += is_digit(line[i]);
            letters += is_hex_letter(line[i]);
        }
        if (digits && letters && digits + letters == i - begin && i - begin >= 5) {
            memset(shape + begin, MARK, (size_t)(i - begin));
        }
    }
}

/* Write a line's shape. 0 where it has none, for it holds the byte of a mark. */
static int
shape_of(char *shape, const char *line, Py_ssize_t length)
{
    uint8_t odd = 0, maybe = 0;
    shape_by_digits(shape, line, length);
    for (Py_ssize_t i = 0; i < length; i++) {
        odd |= line[i] == MARK;
    }
    for (Py_ssize_t i = 0; i + 1 < length; i++) {
        maybe |= (is_digit(line[i]) & is_hex_letter(line[i + 1])) | (is_hex_letter(line[i]) & is_digit(line[i + 1]));
    }
    if (maybe) {
        shape_marks(shape, line, length);
    }
    return !odd;
}

/* The number of a shape's plan; -1 where it is not known. */
static Py_ssize_t
walk_find(const Walk *self, const char *shape, Py_ssize_t length, uint64_t hash)
{
    return table_find(&self->table, self->plans, sizeof(Plan), shape, length, hash);
}

static PyObject *
walk_forget(Walk *self, PyObject *Py_UNUSED(none))
{
    for (Py_ssize_t i = 0; i < self->table.count; i++) {
        PyMem_Free(self->plans[i].shape.bytes);
        Py_CLEAR(self->plans[i].tally);
        Py_CLEAR(self->plans[i].rest);
    }
    PyMem_Free(self->plans);
    PyMem_Free(self->table.slots);
    self->plans = NULL;
    memset(&self->table, 0, sizeof(Table));
    Py_RETURN_NONE;
}

static PyObject *
walk_learn(Walk *self, PyObject *args)
{
    PyObject *shape, *tally, *rest;
    Py_ssize_t begin, end, text;
    if (!PyArg_ParseTuple(args, "SnnOOn:learn", &shape, &begin, &end, &tally, &rest, &text)) {
        return NULL;
    }
    Py_ssize_t length = PyBytes_Size(shape);
    if (begin < 0 || end < begin || end > length || text > length || text < BY_DIGITS || !(tally == Py_None || Py_IS_TYPE(tally, tally_type))) {
        PyErr_SetString(PyExc_ValueError, "learn(shape, begin, end, tally, rest, text)");
        return NULL;
    }
    const char *bytes = PyBytes_AsString(shape);
    uint64_t hash = hash_of(bytes, length);
    Py_ssize_t number = walk_find(self, bytes, length, hash);
    if (number < 0) {
        if (table_grow(&self->table, (void **)&self->plans, sizeof(Plan)) < 0) {
            return PyErr_NoMemory();
        }
        number = self->table.count;
        memset(&self->plans[number], 0, sizeof(Plan));
        if (key_set(&self->plans[number].shape, bytes, length, hash) < 0) {
            return PyErr_NoMemory();
        }
        table_put(&self->table, hash, number);
        self->table.count++;
    }
    Plan *plan = &self->plans[number];
    plan->begin = begin;
    plan->end = end;
    plan->text = text;
    Py_CLEAR(plan->tally);
    Py_CLEAR(plan->rest);
    if (tally != Py_None) {
        plan->tally = (Tally *)Py_NewRef(tally);
    }
    if (rest != Py_None) {
        plan->rest = Py_NewRef(rest);
    }
    Py_RETURN_NONE;
}

static PyObject *
or_none(void *object)
{
    return object ? (PyObject *)object : Py_None;
}

static PyObject *
walk_known(Walk *self, PyObject *shape)
{
    if (!is_bytes(shape)) {
        return NULL;
    }
    const char *bytes = PyBytes_AsString(shape);
    Py_ssize_t length = PyBytes_Size(shape);
    Py_ssize_t number = walk_find(self, bytes, length, hash_of(bytes, length));
    if (number < 0) {
        Py_RETURN_NONE;
    }
    Plan *plan = &self->plans[number];
    return Py_BuildValue("(nnOO)", plan->begin, plan->end, or_none(plan->tally), or_none(plan->rest));
}

static PyObject *
walk_lines(Walk *self, PyObject *args)
{
    PyObject *data, *search;
    Py_ssize_t size;
    long long base;
    if (!PyArg_ParseTuple(args, "SnLO!:lines", &data, &size, &base, search_type, &search)) {
        return NULL;
    }
    if (size < 0 || size > PyBytes_Size(data)) {
        return PyErr_Format(PyExc_ValueError, "lines(data, size, base, search): out of range");
    }
    Py_CLEAR(self->data);
    Py_CLEAR(self->search);
    self->data = Py_NewRef(data);
    self->search = (Search *)Py_NewRef(search);
    self->size = size;
    self->base = base;
    self->at = 0;
    return Py_NewRef(self);
}

static Py_ssize_t
line_start(const char *data, Py_ssize_t before)
{
#if defined(__GLIBC__) && !defined(PORTABLE)
    const char *found = memrchr(data, '\n', (size_t)before);
    return found ? found - data + 1 : 0;
#else
    while (before > 0 && data[before - 1] != '\n') {
        before--;
    }
    return before;
#endif
}

/* The next line that takes more than to be counted: (start, stop, rest); rest is None where its shape is not known. */
static PyObject *
walk_next(Walk *self)
{
    if (self->data == NULL) {
        return NULL;
    }
    const char *data = PyBytes_AsString(self->data);
    Py_ssize_t size = self->size, at = self->at;
    while ((at = search_sift(self->search, data, at, size)) < size) {
        const Gram *gram = search_around(self->search, data, at, size, NULL);
        if (gram == NULL) {
            at += self->search->stride;
            continue;
        }
        /* all that is wanted is the line: what else stands in it, its shape tells */
        Py_ssize_t after = at - gram->offset + self->search->words[gram->word].length;
        Py_ssize_t start = line_start(data, after - 1);
        const char *end = memchr(data + after - 1, '\n', (size_t)(size - after + 1));
        Py_ssize_t stop = end ? end - data : size, length = stop - start, number = -1;
        self->at = at = stop + 1;
        const char *line = data + start;
        if (length <= LONGEST_SHAPE && shape_of(self->shape, line, length)) {
            number = walk_find(self, self->shape, length, hash_of(self->shape, length));
            if (number >= 0 && self->plans[number].text == BY_DIGITS) {
                shape_by_digits(self->shape, line, length);
                number = walk_find(self, self->shape, length, hash_of(self->shape, length));
            }
        }
        if (number < 0) {
            return Py_BuildValue("(nnO)", start, stop, Py_None);
        }
        const Plan *plan = &self->plans[number];
        if (plan->rest != NULL) {
            PyObject *rest = plan->rest;
            if (plan->text >= 0) {
                Py_ssize_t tail = length - plan->text;
                self->shape[length] = '\n';
                memcpy(self->shape + length + 1, line + plan->text, (size_t)tail);
                Py_ssize_t both = length + 1 + tail;
                number = walk_find(self, self->shape, both, hash_of(self->shape, both));
            }
            if (plan->text < 0 || number < 0) {
                return Py_BuildValue("(nnO)", start, stop, rest);
            }
            plan = &self->plans[number];
        }
        if (plan->tally != NULL) {
            if (tally_count(plan->tally, line + plan->begin, plan->end - plan->begin, self->base + start) < 0) {
                return PyErr_NoMemory();
            }
        }
    }
    Py_CLEAR(self->data);
    Py_CLEAR(self->search);
    return NULL;
}

static void
walk_dealloc(Walk *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(walk_forget(self, NULL));
    Py_XDECREF(self->data);
    Py_XDECREF(self->search);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef walk_methods[] = {
    {"learn", (PyCFunction)walk_learn, METH_VARARGS, "learn(shape, begin, end, tally, rest, text)"},
    {"known", (PyCFunction)walk_known, METH_O, "known(shape) -> (begin, end, tally, rest) or None"},
    {"forget", (PyCFunction)walk_forget, METH_NOARGS, "forget(): all shapes are new again."},
    {"lines", (PyCFunction)walk_lines, METH_VARARGS, "lines(data, size, base, search): the lines that take more"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot walk_slots[] = {
    {Py_tp_doc, "Goes from line to line that holds a word, and counts those whose shape is known."},
    {Py_tp_methods, walk_methods},
    {Py_tp_iter, SLOT(PyObject_SelfIter)},
    {Py_tp_iternext, SLOT(walk_next)},
    {Py_tp_dealloc, SLOT(walk_dealloc)},
    {0, NULL},
};
static PyType_Spec walk_spec = {"slurmdoctor.search._native.Walk", sizeof(Walk), 0, Py_TPFLAGS_DEFAULT, walk_slots};

static PyTypeObject *walk_type;
