/* Tally: what lines that satisfy the same watches add up to; tally.Tally in C. */
#pragma once
#include "table.h"

typedef struct {
    int64_t *at;
    Py_ssize_t count, room;
    Py_ssize_t oldest; /* where the oldest stands once the room is a ring */
} Places;

typedef struct {
    Places firsts, bursts, recents;
} Kept;

typedef struct {
    Key label;
    int64_t count, burst, burst_first, first;
    Kept *kept; /* NULL in a crowd, of which no more than the first place is kept */
} Entry; /* 64 bytes: what fits into one line of the cache is counted twice as fast */

typedef struct {
    PyObject_HEAD
    Table table;
    Entry *entries;
    Py_ssize_t keep, crowd, most;
    int shift;
    int64_t first, stretch, burst;
} Tally;

static int
places_add(Places *places, int64_t place, Py_ssize_t keep)
{
    if (places->count == places->room && places->room < keep) {
        Py_ssize_t room = places->room ? places->room * 2 : 1;
        room = room < keep ? room : keep;
        int64_t *more = PyMem_Realloc(places->at, (size_t)room * sizeof(int64_t));
        if (more == NULL) {
            return -1;
        }
        places->at = more;
        places->room = room;
    }
    if (places->count < keep) {
        places->at[places->count++] = place;
    }
    else {
        places->at[places->oldest] = place;
        places->oldest = (places->oldest + 1) % keep;
    }
    return 0;
}

static PyObject *
places_list(const Places *places)
{
    PyObject *list = PyList_New(places->count);
    for (Py_ssize_t i = 0; list != NULL && i < places->count; i++) {
        PyObject *place = PyLong_FromLongLong(places->at[(places->oldest + i) % places->count]);
        if (place == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, i, place);
    }
    return list;
}

static int
tally_insert(Tally *self, const char *label, Py_ssize_t length, uint64_t hash, int64_t place, int few)
{
    if (table_grow(&self->table, (void **)&self->entries, sizeof(Entry)) < 0) {
        return -1;
    }
    Entry *entry = &self->entries[self->table.count];
    memset(entry, 0, sizeof(Entry));
    entry->count = 1;
    entry->burst = self->burst;
    entry->burst_first = entry->first = place;
    if (few) {
        entry->kept = PyMem_Calloc(1, sizeof(Kept));
        if (entry->kept == NULL || places_add(&entry->kept->firsts, place, 1) < 0 ||
            places_add(&entry->kept->bursts, place, 1) < 0 || places_add(&entry->kept->recents, place, 1) < 0) {
            return -1;
        }
    }
    if (key_set(&entry->label, label, length, hash) < 0) {
        return -1;
    }
    table_put(&self->table, hash, self->table.count++);
    return 0;
}

static int
tally_count(Tally *self, const char *label, Py_ssize_t length, int64_t place)
{
    int64_t stretch = place >> self->shift;
    if (stretch != self->stretch) {
        self->burst += stretch > self->stretch + 1;
        if (self->first < 0) {
            self->first = stretch;
        }
        self->stretch = stretch;
    }
    int few = self->table.count <= self->crowd;
    uint64_t hash = hash_of(label, length);
    Py_ssize_t number = table_find(&self->table, self->entries, sizeof(Entry), label, length, hash);
    if (number < 0 && self->table.count >= self->most) {
        few = 0;
        length = 0;
        hash = hash_of("", 0);
        number = table_find(&self->table, self->entries, sizeof(Entry), "", 0, hash);
    }
    if (number < 0) {
        return tally_insert(self, label, length, hash, place, few);
    }
    Entry *entry = &self->entries[number];
    entry->count++;
    int fresh = entry->burst != self->burst;
    if (fresh) {
        entry->burst = self->burst;
        entry->burst_first = place;
    }
    if (!few) {
        return 0;
    }
    Py_ssize_t keep = self->keep;
    Kept *kept = entry->kept;
    if (fresh) {
        kept->bursts.count = 0;
    }
    if (kept->bursts.count < keep && places_add(&kept->bursts, place, keep) < 0) {
        return -1;
    }
    if (kept->firsts.count < keep && places_add(&kept->firsts, place, keep) < 0) {
        return -1;
    }
    return places_add(&kept->recents, place, keep);
}

static PyObject *
tally_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named))
{
    Py_ssize_t keep, crowd, most;
    int shift;
    if (!PyArg_ParseTuple(args, "nnni:Tally", &keep, &crowd, &most, &shift)) {
        return NULL;
    }
    if (keep < 1 || crowd < 0 || most <= crowd || most > 1 << 24 || shift < 0 || shift > 62) {
        PyErr_SetString(PyExc_ValueError, "Tally(keep, crowd, most, shift): out of range");
        return NULL;
    }
    Tally *self = (Tally *)PyType_GenericAlloc(type, 0);
    if (self != NULL) {
        self->keep = keep;
        self->crowd = crowd;
        self->most = most;
        self->shift = shift;
        self->first = self->burst = -1;
        self->stretch = -2;
    }
    return (PyObject *)self;
}

static PyObject *
tally_add(Tally *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !is_bytes(args[0])) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "add(label, place)");
    }
    long long place = PyLong_AsLongLong(args[1]);
    if (place == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (tally_count(self, PyBytes_AsString(args[0]), PyBytes_Size(args[0]), place) < 0) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

static PyObject *
entry_packed(const Entry *entry)
{
    long long count = entry->count, burst = entry->burst, burst_first = entry->burst_first;
    const Kept *kept = entry->kept;
    if (kept == NULL) {
        return Py_BuildValue("[LLL[L]OO]", count, burst, burst_first, (long long)entry->first, Py_None, Py_None);
    }
    return Py_BuildValue(
        "[LLLNNN]", count, burst, burst_first, places_list(&kept->firsts), places_list(&kept->bursts),
        places_list(&kept->recents)
    );
}

static PyObject *
tally_packed(Tally *self, PyObject *Py_UNUSED(none))
{
    PyObject *labels = PyDict_New();
    for (Py_ssize_t i = 0; labels != NULL && i < self->table.count; i++) {
        const Entry *entry = &self->entries[i];
        PyObject *label = PyBytes_FromStringAndSize(entry->label.bytes, entry->label.length);
        PyObject *packed = label ? entry_packed(entry) : NULL;
        if (packed == NULL || PyDict_SetItem(labels, label, packed) < 0) {
            Py_CLEAR(labels);
        }
        Py_XDECREF(label);
        Py_XDECREF(packed);
    }
    if (labels == NULL) {
        return NULL;
    }
    return Py_BuildValue("(NLLL)", labels, (long long)self->first, (long long)self->stretch, (long long)self->burst);
}

static void
tally_dealloc(Tally *self)
{
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; i < self->table.count; i++) {
        Kept *kept = self->entries[i].kept;
        if (kept != NULL) {
            PyMem_Free(kept->firsts.at);
            PyMem_Free(kept->bursts.at);
            PyMem_Free(kept->recents.at);
            PyMem_Free(kept);
        }
        PyMem_Free(self->entries[i].label.bytes);
    }
    PyMem_Free(self->entries);
    PyMem_Free(self->table.slots);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef tally_methods[] = {
    {"add", (PyCFunction)(void (*)(void))tally_add, METH_FASTCALL, "add(label, place): count one line."},
    {"packed", (PyCFunction)tally_packed, METH_NOARGS, "packed() -> (labels, first, stretch, burst)"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot tally_slots[] = {
    {Py_tp_doc, "Tally(keep, crowd, most, shift)"},
    {Py_tp_new, SLOT(tally_new)},
    {Py_tp_methods, tally_methods},
    {Py_tp_dealloc, SLOT(tally_dealloc)},
    {0, NULL},
};
static PyType_Spec tally_spec = {
    "slurmdoctor.search._native.Tally", sizeof(Tally), 0, Py_TPFLAGS_DEFAULT, tally_slots};

static PyTypeObject *tally_type;
