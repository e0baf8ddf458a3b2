/* A hash table of byte strings: slots hold a number + 1 of an item in an array that the owner keeps. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define SLOT(function) (__extension__(void *)(function)) /* Python keeps functions as objects, which ISO C forbids */

/* Drawn anew by each process: a log is written before, so whoever writes it cannot know which of its lines share a slot. */
static uint64_t hash_key[2];

static inline uint64_t
rotated(uint64_t word, int digits)
{
    return word << digits | word >> (64 - digits);
}

static inline void
sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] = rotated(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[2] = rotated(v[2], 32);
}

static inline void
sip_take(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012), a pseudorandom function of the key, with the length as the first word. What was
 * here before, a multiplication a word, was none: flipping the highest bit of one word and two bits of the next kept the
 * hash under every key. Bytes are read in the machine's order, for no hash leaves the process. */
static uint64_t
hash_of(const char *bytes, Py_ssize_t length)
{
    uint64_t v[4] = {
        hash_key[0] ^ 0x736F6D6570736575u,
        hash_key[1] ^ 0x646F72616E646F6Du,
        hash_key[0] ^ 0x6C7967656E657261u,
        hash_key[1] ^ 0x7465646279746573u,
    };
    uint64_t word;
    sip_take(v, (uint64_t)length);
    for (; length >= 8; bytes += 8, length -= 8) {
        memcpy(&word, bytes, 8);
        sip_take(v, word);
    }
    word = 0;
    memcpy(&word, bytes, (size_t)length);
    sip_take(v, word);
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
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
