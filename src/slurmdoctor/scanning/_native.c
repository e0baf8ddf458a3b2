/* The innermost loop of the scan: counts lines of known shape and known writer without a call into Python for each.
 *
 * walk.py and tally.py say the same in Python. They are the specification, and what runs where this was not compiled;
 * the tests hold both to one result. Offsets are bytes.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define LONGEST_SHAPE 16384 /* scan.LONG_LINE: longer lines are read piece by piece, in Python */

#define INTERFACE 1 /* walk.py has the same number: to be changed with what is called, and how */

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

/* A hash table of byte strings: slots hold a number + 1 of an item in an array that the owner keeps. */

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

/* Search: finds words by four bytes of each, looked for at every `stride` places only; engine.py chooses them. */

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

static PyTypeObject *search_type, *tally_type, *walk_type;

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
    case 3:
        return sift(self->sieve, data, at, size, 3);
    case 4:
        return sift(self->sieve, data, at, size, 4);
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
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Search *self = (Search *)make(type, 0);
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

/* Tally: what lines that satisfy the same watches add up to; tally.Tally. */

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
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Tally *self = (Tally *)make(type, 0);
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

/* Walk: goes from line to line that holds a word, and counts what it knows; walk.Walk. */

typedef struct {
    Key shape;
    Py_ssize_t begin, end; /* of the label */
    Py_ssize_t text;       /* where what follows decides, digits and all: looked up behind the shape; -1 for none */
    Tally *tally;
    PyObject *rest;
} Plan;

typedef struct {
    PyObject_HEAD
    Table table;
    Plan *plans;
    PyObject *data;
    Search *search;
    int64_t base;
    Py_ssize_t at; /* the end of the last line */
    char shape[2 * LONGEST_SHAPE + 1]; /* of the line, and behind it the text of one whose digits matter */
} Walk;

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
    if (begin < 0 || end < begin || end > length || text > length || !(tally == Py_None || Py_IS_TYPE(tally, tally_type))) {
        PyErr_SetString(PyExc_ValueError, "learn(shape, begin, end, tally, rest, text)");
        return NULL;
    }
    const char *bytes = PyBytes_AsString(shape);
    uint64_t hash = hash_of(bytes, length);
    Py_ssize_t number = table_find(&self->table, self->plans, sizeof(Plan), bytes, length, hash);
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

static Py_ssize_t
walk_find(const Walk *self, Py_ssize_t length)
{
    return table_find(&self->table, self->plans, sizeof(Plan), self->shape, length, hash_of(self->shape, length));
}

static PyObject *
walk_known(Walk *self, PyObject *shape)
{
    if (!is_bytes(shape)) {
        return NULL;
    }
    const char *bytes = PyBytes_AsString(shape);
    Py_ssize_t length = PyBytes_Size(shape);
    Py_ssize_t number =
        table_find(&self->table, self->plans, sizeof(Plan), bytes, length, hash_of(bytes, length));
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
    long long base;
    if (!PyArg_ParseTuple(args, "SLO!:lines", &data, &base, search_type, &search)) {
        return NULL;
    }
    Py_CLEAR(self->data);
    Py_CLEAR(self->search);
    self->data = Py_NewRef(data);
    self->search = (Search *)Py_NewRef(search);
    self->base = base;
    self->at = 0;
    return Py_NewRef(self);
}

static Py_ssize_t
line_start(const char *data, Py_ssize_t before)
{
#ifdef __GLIBC__
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
    Py_ssize_t size = PyBytes_Size(self->data);
    Py_ssize_t at = self->at;
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
        if (length <= LONGEST_SHAPE) {
            for (Py_ssize_t i = 0; i < length; i++) {
                self->shape[i] = (unsigned char)(line[i] - '1') < 9 ? '0' : line[i];
            }
            number = walk_find(self, length);
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
                number = walk_find(self, length + 1 + tail);
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

/* The module. */

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

static PyObject *
search_offset(Search *self, PyObject *number)
{
    Py_ssize_t word = PyLong_AsSsize_t(number);
    if (word < 0 || word >= self->count) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "no such word");
    }
    return PyLong_FromLong(self->grams[word * self->stride].offset);
}

static PyMethodDef search_methods[] = {
    {"ends", (PyCFunction)search_ends, METH_O, "ends(data) -> the offsets behind all words in it, rising"},
    {"which", (PyCFunction)search_which, METH_O, "which(data) -> the numbers of the words in it"},
    {"offset", (PyCFunction)search_offset, METH_O, "offset(number) -> where in this word its grams begin"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot search_slots[] = {
    {Py_tp_doc, "Search(words, offsets, stride)"},
    {Py_tp_new, search_new},
    {Py_tp_methods, search_methods},
    {Py_tp_dealloc, search_dealloc},
    {0, NULL},
};
static PyType_Spec search_spec = {
    "slurmdoctor.scanning._native.Search", sizeof(Search), 0, Py_TPFLAGS_DEFAULT, search_slots};

static PyMethodDef tally_methods[] = {
    {"add", (PyCFunction)(void (*)(void))tally_add, METH_FASTCALL, "add(label, place): count one line."},
    {"packed", (PyCFunction)tally_packed, METH_NOARGS, "packed() -> (labels, first, stretch, burst)"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot tally_slots[] = {
    {Py_tp_doc, "Tally(keep, crowd, most, shift)"},
    {Py_tp_new, tally_new},
    {Py_tp_methods, tally_methods},
    {Py_tp_dealloc, tally_dealloc},
    {0, NULL},
};
static PyType_Spec tally_spec = {
    "slurmdoctor.scanning._native.Tally", sizeof(Tally), 0, Py_TPFLAGS_DEFAULT, tally_slots};

static PyMethodDef walk_methods[] = {
    {"learn", (PyCFunction)walk_learn, METH_VARARGS, "learn(shape, begin, end, tally, rest, text)"},
    {"known", (PyCFunction)walk_known, METH_O, "known(shape) -> (begin, end, tally, rest) or None"},
    {"forget", (PyCFunction)walk_forget, METH_NOARGS, "forget(): all shapes are new again."},
    {"lines", (PyCFunction)walk_lines, METH_VARARGS, "lines(data, base, search): the lines that take more"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot walk_slots[] = {
    {Py_tp_doc, "Goes from line to line that holds a word, and counts those whose shape is known."},
    {Py_tp_methods, walk_methods},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, walk_next},
    {Py_tp_dealloc, walk_dealloc},
    {0, NULL},
};
static PyType_Spec walk_spec = {"slurmdoctor.scanning._native.Walk", sizeof(Walk), 0, Py_TPFLAGS_DEFAULT, walk_slots};

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
