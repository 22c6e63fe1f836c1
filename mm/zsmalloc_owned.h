/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A part of mm/zsmalloc.c: objects without handles. Instead, a word of the
 * owner points to each object. See include/linux/zsmalloc_owned.h.
 *
 * Locking: class->lock keeps objects in place. A task holds it to follow a word
 * to its object, and to change the word of an unpinned object, except for the
 * owner's bits. So a free and a move of the same object exclude one another.
 * The class of an object never changes and is part of the place, so it can be
 * read before the lock is taken. A pin keeps objects in place after class->lock
 * was dropped: it is a reader of zspage->zsl, so that compaction and migration
 * fail in zspage_write_trylock(). pool->lock is not needed for any of this.
 */

#ifdef CONFIG_ZSMALLOC_OWNED

/*
 * A place is [PFN | class_idx | obj_idx], like an obj, but it has a class_idx
 * in every configuration:
 *
 *	place	| PFN | CLASS_BITS + 1 | ZS_OBJS_PER_ZSPAGE_BITS |
 */
#define OWNED_CLASS_MASK	((1U << (CLASS_BITS + 1)) - 1)
#define OWNED_IDX_MASK		((1U << ZS_OBJS_PER_ZSPAGE_BITS) - 1)
#define OWNED_PFN_SHIFT		(ZS_OBJS_PER_ZSPAGE_BITS + CLASS_BITS + 1)
#define OWNED_PFN_BITS		(ZS_PLACE_BITS - OWNED_PFN_SHIFT)

/* The head of an object, which other pools use for the handle. */
#define OWNED_LEN_SHIFT		OBJ_TAG_BITS
#define OWNED_LEN_BITS		16
#define OWNED_NAME_SHIFT	(OWNED_LEN_SHIFT + OWNED_LEN_BITS)

static_assert(PAGE_SHIFT <= OWNED_LEN_BITS);
static_assert(OWNED_NAME_SHIFT + ZS_NAME_BITS == 64);

static bool is_owned_pool(struct zs_pool *pool)
{
	return pool->find_word;
}

/*
 * Returns true if the place of an object on the page @zpdesc fits in a word.
 * That is so in the first 1 PiB of memory, except for PFN 0. Then also raises
 * top_pfn, the highest PFN that the pool has used. No valid place is above it.
 */
static bool owned_admit(struct zs_pool *pool, struct zpdesc *zpdesc)
{
	unsigned long pfn = zpdesc_pfn(zpdesc), top = READ_ONCE(pool->top_pfn);

	if (!pfn || pfn >> OWNED_PFN_BITS)
		return false;
	while (pfn > top && !try_cmpxchg(&pool->top_pfn, &top, pfn))
		;
	return true;
}

static u64 owned_place(unsigned long obj, unsigned int class_idx)
{
	struct zpdesc *zpdesc;
	unsigned int idx;

	obj_to_location(obj, &zpdesc, &idx);
	return (u64)zpdesc_pfn(zpdesc) << OWNED_PFN_SHIFT |
	       class_idx << ZS_OBJS_PER_ZSPAGE_BITS | idx;
}

/* Locks the class of a place. Returns false if there is no such class. */
static __always_inline bool owned_lock_class(struct zs_pool *pool, u64 place,
					     struct size_class **class)
{
	unsigned int idx = place >> ZS_OBJS_PER_ZSPAGE_BITS & OWNED_CLASS_MASK;

	if (WARN_ON_ONCE(idx >= ZS_SIZE_CLASSES))
		return false;
	*class = pool->size_class[idx];
	spin_lock(&(*class)->lock);
	return true;
}

/* Location of an object. Valid under class->lock, or while it is pinned. */
struct owned_obj {
	struct zpdesc *zpdesc;
	struct zspage *zspage;
	unsigned int idx;
	unsigned int off;
	unsigned long head;
};

/*
 * Finds the object at a valid place. Inlined, so that @obj stays in registers.
 */
static __always_inline void owned_at(struct size_class *class, u64 place,
				     struct owned_obj *obj)
{
	obj->zpdesc = pfn_zpdesc(place >> OWNED_PFN_SHIFT);
	obj->zspage = obj->zpdesc->zspage;
	obj->idx = place & OWNED_IDX_MASK;
	obj->off = offset_in_page(class->size * obj->idx);
	if (obj->zspage->huge) {
		obj->head = obj->zpdesc->handle;
	} else {
		void *addr = kmap_local_zpdesc(obj->zpdesc);

		obj->head = *(unsigned long *)(addr + obj->off);
		kunmap_local(addr);
		obj->off += ZS_HANDLE_SIZE;
	}
}

/*
 * Finds the object at a place. Returns false if the place is not in a zspage of
 * @class, because the word is corrupt. Only debug kernels call pfn_valid(),
 * because it takes a third of the time that the rest of the lookup takes.
 */
static __always_inline bool owned_find(struct zs_pool *pool, struct size_class *class,
				       u64 place, struct owned_obj *obj)
{
	unsigned long pfn = place >> OWNED_PFN_SHIFT;
	struct zspage *zspage;

	if (pfn > READ_ONCE(pool->top_pfn) ||
	    (IS_ENABLED(CONFIG_DEBUG_VM) && !pfn_valid(pfn)) ||
	    !PageZsmalloc(pfn_to_page(pfn)))
		return false;
	zspage = pfn_zpdesc(pfn)->zspage;
	if (!zspage || zspage->pool != pool || zspage->class != class->index ||
	    (place & OWNED_IDX_MASK) >= class->objs_per_zspage)
		return false;
	owned_at(class, place, obj);
	return true;
}

/*
 * Finds the object at a place, if it has @name. Otherwise the word is corrupt:
 * warns once, and sets pool->damaged, because an object is left that no word
 * points to. To move that object, zsmalloc would look up a word that may be
 * freed by then. So it no longer moves objects of this pool.
 */
static __always_inline bool owned_find_named(struct zs_pool *pool,
					     struct size_class *class, u64 place,
					     u64 name, struct owned_obj *obj)
{
	if (likely(owned_find(pool, class, place, obj) &&
		   obj->head >> OWNED_NAME_SHIFT == name &&
		   (obj->head & OBJ_ALLOCATED_TAG)))
		return true;
	WARN_ON_ONCE(1);
	WRITE_ONCE(pool->damaged, true);
	return false;
}

/*
 * Returns true if an object of the pool could not be found by its word. Caller
 * holds class->lock of the objects that it is about to move.
 *
 * The task that set the mark held the lock of the class in the corrupt word. If
 * there is no such class, it held no lock. So a caller that holds the lock of
 * another class may see the mark late, and move the lost object. That is
 * harmless. The owner frees what find_word() reads only after an RCU grace
 * period. The grace period begins after the mark was set. A caller that did not
 * see the mark holds a spinlock, so it is in an RCU section. The grace period
 * waits for it. The word names the lost object no more, so owned_moved() warns
 * and leaves the word alone.
 */
static bool owned_is_damaged(struct zs_pool *pool)
{
	return READ_ONCE(pool->damaged);
}

static unsigned int owned_len(unsigned long head)
{
	return (head >> OWNED_LEN_SHIFT & ((1U << OWNED_LEN_BITS) - 1)) + 1;
}

/*
 * Pins the objects of a zspage. Caller holds class->lock. Tasks that write-lock
 * zspage->zsl hold class->lock until they have unlocked zsl, so zsl is not
 * write-locked now. Lockdep is not told, because no task waits for a pin.
 */
static void owned_pin(struct zspage *zspage)
{
	spin_lock(&zspage->zsl.lock);
	zspage->zsl.cnt++;
	spin_unlock(&zspage->zsl.lock);
}

/**
 * zs_owned_unpin - allow zsmalloc to move an object again
 * @place: place of an object that the caller has pinned
 */
void zs_owned_unpin(u64 place)
{
	struct zspage *zspage = pfn_zpdesc(place >> OWNED_PFN_SHIFT)->zspage;

	spin_lock(&zspage->zsl.lock);
	zspage->zsl.cnt--;
	spin_unlock(&zspage->zsl.lock);
}

/*
 * Allocates a zspage whose pages a word can name, and puts it on no list.
 * Returns ERR_PTR(-EOVERFLOW) if a word cannot name them, or ERR_PTR(-ENOMEM).
 */
static struct zspage *owned_alloc_zspage(struct zs_pool *pool,
					 struct size_class *class,
					 gfp_t gfp, int nid)
{
	struct zspage *zspage = alloc_zspage(pool, class, gfp, nid);
	struct zpdesc *zpdesc, *next;
	bool fits = true;

	if (!zspage)
		return ERR_PTR(-ENOMEM);
	for (zpdesc = get_first_zpdesc(zspage); zpdesc; zpdesc = get_next_zpdesc(zpdesc))
		fits &= owned_admit(pool, zpdesc);
	if (likely(fits))
		return zspage;

	for (zpdesc = get_first_zpdesc(zspage); zpdesc; zpdesc = next) {
		next = get_next_zpdesc(zpdesc);
		reset_zpdesc(zpdesc);
		zpdesc_dec_zone_page_state(zpdesc);
		free_zpdesc(zpdesc);
	}
	cache_free_zspage(zspage);
	return ERR_PTR(-EOVERFLOW);
}

/**
 * zs_owned_store - store a copy of @data
 * @pool: from zs_create_owned_pool()
 * @data: what to store
 * @len: length of @data
 * @gfp: flags, for new pages
 * @nid: preferred node of new pages
 * @name: by which find_word() will find the word of the object
 *
 * Return: the place of the object, which is pinned; -EINVAL if @len is 0 or
 * @name is not valid; -ENOSPC if @len is more than a page; -ENOMEM; or
 * -EOVERFLOW if a word cannot name the place of new pages.
 */
s64 zs_owned_store(struct zs_pool *pool, const void *data, size_t len,
		   gfp_t gfp, int nid, u64 name)
{
	unsigned long head, obj;
	struct size_class *class;
	struct zspage *zspage;
	struct zpdesc *zpdesc;
	unsigned int idx, off;
	size_t here;

	if (unlikely(!len || !name || name >> ZS_NAME_BITS))
		return -EINVAL;
	if (unlikely(len > ZS_MAX_ALLOC_SIZE))
		return -ENOSPC;

	head = name << OWNED_NAME_SHIFT | (len - 1) << OWNED_LEN_SHIFT;
	class = lookup_size_class(pool, len);
	spin_lock(&class->lock);
	zspage = find_get_zspage(class);
	if (likely(zspage)) {
		obj = obj_malloc_unrecorded(pool, zspage, head);
		fix_fullness_group(class, zspage);
	} else {
		spin_unlock(&class->lock);
		zspage = owned_alloc_zspage(pool, class, gfp, nid);
		if (IS_ERR(zspage))
			return PTR_ERR(zspage);

		spin_lock(&class->lock);
		obj = obj_malloc_unrecorded(pool, zspage, head);
		insert_zspage(class, zspage, get_fullness_group(class, zspage));
		atomic_long_add(class->pages_per_zspage, &pool->pages_allocated);
		class_stat_add(class, ZS_OBJS_ALLOCATED, class->objs_per_zspage);
		SetZsPageMovable(pool, zspage);
	}
	class_stat_add(class, ZS_OBJS_INUSE, 1);
	owned_pin(zspage);
	spin_unlock(&class->lock);

	obj_to_location(obj, &zpdesc, &idx);
	off = offset_in_page(class->size * idx);
	if (!zspage->huge)
		off += ZS_HANDLE_SIZE;
	here = min_t(size_t, len, PAGE_SIZE - off);
	memcpy_to_page(zpdesc_page(zpdesc), off, data, here);
	if (here < len)
		memcpy_to_page(zpdesc_page(get_next_zpdesc(zpdesc)), 0,
			       data + here, len - here);

	return owned_place(obj, class->index);
}

/* Sets the head of a free object: the index of the next free object. */
static __always_inline void owned_set_head(struct owned_obj *obj, unsigned long head)
{
	void *addr;

	if (obj->zspage->huge) {
		obj->zpdesc->handle = 0;
		return;
	}
	addr = kmap_local_zpdesc(obj->zpdesc);
	*(unsigned long *)(addr + obj->off - ZS_HANDLE_SIZE) = head;
	kunmap_local(addr);
}

/*
 * Frees an object. Caller holds class->lock. If the zspage has become empty,
 * adds it to @emptied, or leaves it to deferred free if a page of it is locked.
 */
static __always_inline void owned_put_obj(struct zs_pool *pool,
					  struct size_class *class,
					  struct owned_obj *obj,
					  struct zs_emptied *emptied)
{
	struct zspage *zspage = obj->zspage;

	/* Like obj_free(), which would have to find the object again. */
	owned_set_head(obj, (unsigned long)get_freeobj(zspage) << OBJ_TAG_BITS);
	set_freeobj(zspage, obj->idx);
	mod_zspage_inuse(zspage, -1);
	class_stat_sub(class, ZS_OBJS_INUSE, 1);
	if (fix_fullness_group(class, zspage) != ZS_INUSE_RATIO_0)
		return;
	if (!trylock_zspage(zspage)) {
		kick_deferred_free(pool);
		return;
	}
	remove_zspage(class, zspage);
	class_stat_sub(class, ZS_OBJS_ALLOCATED, class->objs_per_zspage);
	zspage->list.next = emptied->first ? &emptied->first->list : NULL;
	emptied->first = zspage;
}

/**
 * zs_owned_free_emptied - free zspages that have become empty
 * @pool: the pool of the zspages
 * @emptied: the list that zs_owned_free() or zs_owned_free_pinned() has filled
 */
void zs_owned_free_emptied(struct zs_pool *pool, struct zs_emptied *emptied)
{
	struct zspage *zspage = emptied->first;

	emptied->first = NULL;
	while (zspage) {
		struct list_head *next = zspage->list.next;

		atomic_long_sub(zspage_class(pool, zspage)->pages_per_zspage,
				&pool->pages_allocated);
		__free_zspage_lockless(zspage);
		zspage = next ? list_entry(next, struct zspage, list) : NULL;
	}
}

/**
 * zs_owned_free_pinned - free an object that is pinned once
 * @pool: the pool of the object
 * @place: the place of the object
 * @word: the word that points to the object, or NULL if there is none
 * @new: the new value of the word
 * @emptied: as for zs_owned_free()
 */
void zs_owned_free_pinned(struct zs_pool *pool, u64 place, u64 *word, u64 new,
			  struct zs_emptied *emptied)
{
	struct size_class *class;
	struct owned_obj obj;

	if (!owned_lock_class(pool, place, &class))
		return;
	owned_at(class, place, &obj);
	/* Without the pin, class->lock keeps the object in place. */
	zs_owned_unpin(place);
	owned_put_obj(pool, class, &obj, emptied);
	if (word)
		WRITE_ONCE(*word, new);
	spin_unlock(&class->lock);
}

/**
 * zs_owned_free - free the object that a word points to
 * @pool: the pool of the object
 * @word: the word. The caller knows that it points to an object.
 * @name: the name of the object
 * @new: the new value of the word
 * @emptied: list for a zspage that becomes empty. The caller passes it to
 *	zs_owned_free_emptied(), after it has dropped its locks if it can.
 *
 * Return: the length of the object. -EUCLEAN: there is no object with this name
 * at the place in @word; warns once. Sets the word to @new in either case.
 */
int zs_owned_free(struct zs_pool *pool, u64 *word, u64 name, u64 new,
		  struct zs_emptied *emptied)
{
	struct size_class *class;
	struct owned_obj obj;
	int len = -EUCLEAN;

	if (unlikely(!owned_lock_class(pool, READ_ONCE(*word) >> ZS_PLACE_SHIFT, &class))) {
		WRITE_ONCE(pool->damaged, true);
		WRITE_ONCE(*word, new);
		return len;
	}
	/* Under class->lock, owned_moved() does not change the place. */
	if (owned_find_named(pool, class, READ_ONCE(*word) >> ZS_PLACE_SHIFT,
			     name, &obj)) {
		len = owned_len(obj.head);
		owned_put_obj(pool, class, &obj, emptied);
	}
	WRITE_ONCE(*word, new);
	spin_unlock(&class->lock);

	return len;
}

/**
 * zs_owned_read_begin - find the data of an object and pin the object
 * @pool: the pool of the object
 * @word: the word that points to the object. The caller keeps the object from
 *	being freed until it calls zs_owned_unpin() or zs_owned_free_pinned().
 * @name: the name of the object
 * @sg: two entries. The second is filled if the object crosses a page.
 * @place: where to store the place of the object, for zs_owned_unpin()
 *
 * Return: the length of the object. -EUCLEAN: there is no object with this name
 * at the place in @word; warns once, and pins nothing.
 */
int zs_owned_read_begin(struct zs_pool *pool, u64 *word, u64 name,
			struct scatterlist *sg, u64 *place)
{
	struct size_class *class;
	struct owned_obj obj;
	unsigned int len, here;

	if (unlikely(!owned_lock_class(pool, READ_ONCE(*word) >> ZS_PLACE_SHIFT, &class)))
		return -EUCLEAN;
	*place = READ_ONCE(*word) >> ZS_PLACE_SHIFT;
	if (unlikely(!owned_find_named(pool, class, *place, name, &obj))) {
		spin_unlock(&class->lock);
		return -EUCLEAN;
	}
	owned_pin(obj.zspage);
	spin_unlock(&class->lock);

	len = owned_len(obj.head);
	here = min_t(unsigned int, len, PAGE_SIZE - obj.off);
	/* sg_init_table() is not inline. */
	sg[0] = (struct scatterlist) {};
	sg_set_page(sg, zpdesc_page(obj.zpdesc), here, obj.off);
	if (here < len) {
		sg++;
		*sg = (struct scatterlist) {};
		sg_set_page(sg, zpdesc_page(get_next_zpdesc(obj.zpdesc)),
			    len - here, 0);
	}
	sg_mark_end(sg);

	return len;
}

/*
 * Returns the obj (see location_to_obj()) of an object that is about to move,
 * and that begins at offset @off of the page @zpdesc. Reads it from the handle.
 * For an owned object, computes it instead of reading the word, because the
 * word may be corrupt.
 */
static unsigned long obj_at(struct zs_pool *pool, struct size_class *class,
			    struct zpdesc *zpdesc, unsigned int off,
			    unsigned long handle)
{
	struct zpdesc *before;

	if (!is_owned_pool(pool))
		return handle_to_obj(handle);

	before = get_first_zpdesc(get_zspage(zpdesc));
	for (; before != zpdesc; before = get_next_zpdesc(before))
		off += PAGE_SIZE;

	return location_to_obj(zpdesc, off / class->size, class->index);
}

/*
 * Stores the new place of a moved object in its word. Caller holds class->lock,
 * and the object is in use and not pinned. So find_word() finds the word, and
 * only the owner's bits of the word can change meanwhile.
 */
static void owned_moved(struct zs_pool *pool, struct size_class *class,
			unsigned long head, unsigned long from, unsigned long to)
{
	u64 *word = pool->find_word(head >> OWNED_NAME_SHIFT);
	u64 old, new;

	if (WARN_ON_ONCE(!word))
		return;
	old = READ_ONCE(*word);
	do {
		if (WARN_ON_ONCE(old >> ZS_PLACE_SHIFT !=
				 owned_place(from, class->index)))
			return;
		new = owned_place(to, class->index) << ZS_PLACE_SHIFT |
		      (old & ((1U << ZS_PLACE_SHIFT) - 1));
	} while (!try_cmpxchg(word, &old, new));
}

static void obj_moved(struct zs_pool *pool, struct size_class *class,
		      unsigned long handle, unsigned long from, unsigned long to)
{
	if (is_owned_pool(pool))
		owned_moved(pool, class, handle, from, to);
	else
		record_obj(handle, to);
}

/**
 * zs_create_owned_pool - create a pool of objects without handles
 * @name: the name of the pool
 * @find_word: returns the word that points to the object with a given name
 *
 * Return: the pool, which zs_destroy_pool() destroys, or NULL.
 */
struct zs_pool *zs_create_owned_pool(const char *name, zs_find_word_t find_word)
{
	struct zs_pool *pool = zs_create_pool(name);

	if (pool)
		pool->find_word = find_word;
	return pool;
}

#else /* CONFIG_ZSMALLOC_OWNED */

static inline bool is_owned_pool(struct zs_pool *pool)
{
	return false;
}

static inline bool owned_admit(struct zs_pool *pool, struct zpdesc *zpdesc)
{
	return true;
}

static inline bool owned_is_damaged(struct zs_pool *pool)
{
	return false;
}

static inline unsigned long obj_at(struct zs_pool *pool, struct size_class *class,
				   struct zpdesc *zpdesc, unsigned int off,
				   unsigned long handle)
{
	return handle_to_obj(handle);
}

static inline void obj_moved(struct zs_pool *pool, struct size_class *class,
			     unsigned long handle, unsigned long from, unsigned long to)
{
	record_obj(handle, to);
}

#endif /* CONFIG_ZSMALLOC_OWNED */
