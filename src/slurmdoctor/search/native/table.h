/* A hash table of byte strings: slots hold a number + 1 of an item in an array that the owner keeps. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

static uint64_t seed; /* so that nobody can write a log whose lines all fall into one slot */

static uint64_t
hash_of(const char *bytes, Py_ssize_t length)
{
    uint64_t hash = seed ^ ((uint64_t)length * 0x9E3779B97F4A7C15u), word = 0;
    for (; length >= 8; bytes += 8, length -= 8) {
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * 0xBF58476D1CE4E5B9u;
        hash ^= hash >> 31;
    }
    word = 0;
    memcpy(&word, bytes, (size_t)length);
    hash = (hash ^ word) * 0x94D049BB133111EBu;
    return hash ^ (hash >> 29);
}

typedef struct {
    uint64_t hash;
    char *bytes;
    Py_ssize_t length;
} Key;

typedef struct {
    int32_t *slots;
    size_t mask; /* number of slots - 1 */
    Py_ssize_t count;
} Table;

static inline const Key *
key_at(const void *items, size_t width, Py_ssize_t number)
{
    return (const Key *)((const char *)items + width * (size_t)number);
}

static Py_ssize_t
table_find(const Table *table, const void *items, size_t width, const char *bytes, Py_ssize_t length, uint64_t hash)
{
    if (table->slots == NULL) {
        return -1;
    }
    for (size_t slot = hash & table->mask;; slot = (slot + 1) & table->mask) {
        Py_ssize_t number = (Py_ssize_t)table->slots[slot] - 1;
        if (number < 0) {
            return -1;
        }
        const Key *key = key_at(items, width, number);
        if (key->hash == hash && key->length == length && memcmp(key->bytes, bytes, (size_t)length) == 0) {
            return number;
        }
    }
}

static void
table_put(Table *table, uint64_t hash, Py_ssize_t number)
{
    size_t slot = hash & table->mask;
    while (table->slots[slot]) {
        slot = (slot + 1) & table->mask;
    }
    table->slots[slot] = (int32_t)(number + 1);
}

/* Give a new last item its slot, and the array of items room for one more. -1 where there is no memory. */
static int
table_grow(Table *table, void **items, size_t width)
{
    size_t room = table->slots == NULL ? 0 : (table->mask + 1) / 2;
    if ((size_t)table->count < room) {
        return 0;
    }
    size_t slots = room ? room * 4 : 16;
    void *more = PyMem_Realloc(*items, width * slots / 2);
    if (more == NULL) {
        return -1;
    }
    *items = more;
    int32_t *fresh = PyMem_Calloc(slots, sizeof(int32_t));
    if (fresh == NULL) {
        return -1;
    }
    PyMem_Free(table->slots);
    table->slots = fresh;
    table->mask = slots - 1;
    for (Py_ssize_t number = 0; number < table->count; number++) {
        table_put(table, key_at(*items, width, number)->hash, number);
    }
    return 0;
}

static int
key_set(Key *key, const char *bytes, Py_ssize_t length, uint64_t hash)
{
    key->bytes = PyMem_Malloc(length ? (size_t)length : 1);
    if (key->bytes == NULL) {
        return -1;
    }
    memcpy(key->bytes, bytes, (size_t)length);
    key->length = length;
    key->hash = hash;
    return 0;
}

static int
is_bytes(PyObject *object)
{
    if (!PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "bytes are expected");
        return 0;
    }
    return 1;
}
