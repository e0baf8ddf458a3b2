/* Search: finds words by four bytes of each, looked for at every `stride` places only; engine.py chooses them. */
#pragma once
#include "table.h"

#define GRAM 4
#define SIEVE_DIGITS 18 /* binary; a byte each: four times as large as a first-level cache, and still faster than bits */
#define SLOT_DIGITS 14

typedef struct {
    char *bytes;
    Py_ssize_t length;
} Word;

typedef struct {
    uint32_t gram;
    int32_t word, offset; /* where in the word it stands */
    int32_t next;         /* number + 1 of the next one in the same slot */
} Gram;

typedef struct {
    PyObject_HEAD
    Word *words;
    Gram *grams;
    int32_t *slots; /* number + 1 of a gram */
    uint8_t *sieve; /* 1 where some gram has this hash */
    Py_ssize_t count, stride;
} Search;

static inline uint32_t
gram_at(const char *bytes)
{
    uint32_t gram;
    memcpy(&gram, bytes, GRAM);
    return gram;
}

static inline uint32_t
sieve_hash(uint32_t gram)
{
    return (gram * 2654435761u) >> (32 - SIEVE_DIGITS);
}

static inline uint32_t
slot_of(uint32_t hash)
{
    return hash >> (SIEVE_DIGITS - SLOT_DIGITS);
}

/* The first place from `at` on, in steps of a stride, whose four bytes may be some word's; `size` where there is none. */
static inline Py_ssize_t
sift(const uint8_t *sieve, const char *data, Py_ssize_t at, Py_ssize_t size, const Py_ssize_t stride)
{
    for (; at + 8 * stride + GRAM <= size; at += 8 * stride) {
        uint8_t any = 0;
        for (int i = 0; i < 8; i++) {
            any |= sieve[sieve_hash(gram_at(data + at + i * stride))];
        }
        if (any) {
            break;
        }
    }
    for (; at + GRAM <= size; at += stride) {
        if (sieve[sieve_hash(gram_at(data + at))]) {
            return at;
        }
    }
    return size;
}

static Py_ssize_t
search_sift(const Search *self, const char *data, Py_ssize_t at, Py_ssize_t size)
{
    switch (self->stride) { /* steps that the compiler knows are faster */
    case 1:
        return sift(self->sieve, data, at, size, 1);
    case 2:
        return sift(self->sieve, data, at, size, 2);
    default:
        return sift(self->sieve, data, at, size, self->stride);
    }
}

/* The next word that stands around this place, behind the gram `*after` if that is not NULL. */
static const Gram *
search_around(const Search *self, const char *data, Py_ssize_t at, Py_ssize_t size, const Gram *after)
{
    uint32_t gram = gram_at(data + at);
    int32_t number = after ? after->next : self->slots[slot_of(sieve_hash(gram))];
    for (; number; number = self->grams[number - 1].next) {
        const Gram *found = &self->grams[number - 1];
        if (found->gram == gram && found->offset <= at) {
            const Word *word = &self->words[found->word];
            Py_ssize_t start = at - found->offset;
            if (start + word->length <= size && memcmp(data + start, word->bytes, (size_t)word->length) == 0) {
                return found;
            }
        }
    }
    return NULL;
}

static void
search_dealloc(Search *self)
{
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; self->words != NULL && i < self->count; i++) {
        PyMem_Free(self->words[i].bytes);
    }
    PyMem_Free(self->words);
    PyMem_Free(self->grams);
    PyMem_Free(self->slots);
    PyMem_Free(self->sieve);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Learn one word, whose `stride` grams from `offset` on are looked for. */
static int
search_learn(Search *self, Py_ssize_t number, const char *bytes, Py_ssize_t length, Py_ssize_t offset)
{
    Word *word = &self->words[number];
    word->bytes = PyMem_Malloc((size_t)length);
    if (word->bytes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(word->bytes, bytes, (size_t)length);
    word->length = length;
    for (Py_ssize_t i = 0; i < self->stride; i++) {
        Gram *gram = &self->grams[number * self->stride + i];
        gram->gram = gram_at(bytes + offset + i);
        gram->word = (int32_t)number;
        gram->offset = (int32_t)(offset + i);
        uint32_t hash = sieve_hash(gram->gram);
        gram->next = self->slots[slot_of(hash)];
        self->slots[slot_of(hash)] = (int32_t)(number * self->stride + i + 1);
        self->sieve[hash] = 1;
    }
    return 0;
}

static PyObject *
search_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named))
{
    PyObject *words, *offsets;
    Py_ssize_t stride;
    if (!PyArg_ParseTuple(args, "O!O!n:Search", &PyList_Type, &words, &PyList_Type, &offsets, &stride)) {
        return NULL;
    }
    Py_ssize_t count = PyList_Size(words);
    if (PyList_Size(offsets) != count || stride < 1 || stride > 64 || count > 1 << 20) {
        return PyErr_Format(PyExc_ValueError, "Search(words, offsets, stride): out of range");
    }
    Search *self = (Search *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->count = count;
    self->stride = stride;
    self->words = PyMem_Calloc((size_t)count + 1, sizeof(Word));
    self->grams = PyMem_Calloc((size_t)(count * stride) + 1, sizeof(Gram));
    self->slots = PyMem_Calloc((size_t)1 << SLOT_DIGITS, sizeof(int32_t));
    self->sieve = PyMem_Calloc((size_t)1 << SIEVE_DIGITS, 1);
    if (!self->words || !self->grams || !self->slots || !self->sieve) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *word = PyList_GetItem(words, i), *offset = PyList_GetItem(offsets, i);
        Py_ssize_t at = PyLong_AsSsize_t(offset);
        if (PyErr_Occurred() || !is_bytes(word)) {
            Py_DECREF(self);
            return NULL;
        }
        Py_ssize_t length = PyBytes_Size(word);
        if (at < 0 || at + stride + GRAM - 1 > length) {
            Py_DECREF(self);
            return PyErr_Format(PyExc_ValueError, "Search: word %zd is too short", i);
        }
        if (search_learn(self, i, PyBytes_AsString(word), length, at) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

/* A list of all words in the data: their numbers, or the offsets behind them. */
static PyObject *
search_all(Search *self, PyObject *object, int ends)
{
    if (!is_bytes(object)) {
        return NULL;
    }
    const char *data = PyBytes_AsString(object);
    Py_ssize_t size = PyBytes_Size(object), at = 0;
    PyObject *found = PyList_New(0);
    while (found != NULL && (at = search_sift(self, data, at, size)) < size) {
        const Gram *gram = NULL;
        while (found != NULL && (gram = search_around(self, data, at, size, gram)) != NULL) {
            Py_ssize_t end = at - gram->offset + self->words[gram->word].length;
            PyObject *item = PyLong_FromSsize_t(ends ? end : gram->word);
            if (item == NULL || PyList_Append(found, item) < 0) {
                Py_CLEAR(found);
            }
            Py_XDECREF(item);
        }
        at += self->stride;
    }
    return found;
}

static PyObject *
search_ends(Search *self, PyObject *data)
{
    PyObject *found = search_all(self, data, 1);
    if (found != NULL && PyList_Sort(found) < 0) {
        Py_CLEAR(found);
    }
    return found;
}

static PyObject *
search_which(Search *self, PyObject *data)
{
    return search_all(self, data, 0);
}

static PyMethodDef search_methods[] = {
    {"ends", (PyCFunction)search_ends, METH_O, "ends(data) -> the offsets behind all words in it, rising"},
    {"which", (PyCFunction)search_which, METH_O, "which(data) -> the numbers of the words in it"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot search_slots[] = {
    {Py_tp_doc, "Search(words, offsets, stride)"},
    {Py_tp_new, SLOT(search_new)},
    {Py_tp_methods, search_methods},
    {Py_tp_dealloc, SLOT(search_dealloc)},
    {0, NULL},
};
static PyType_Spec search_spec = {
    "slurmdoctor.search._native.Search", sizeof(Search), 0, Py_TPFLAGS_DEFAULT, search_slots};

static PyTypeObject *search_type;
