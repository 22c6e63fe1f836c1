/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A part of mm/zsmalloc.c: objects that their owner's words name, and no handles.
 * See include/linux/zsmalloc_owned.h.
 *
 * Locking: class->lock keeps objects where they are. It is taken to look a place
 * up in a word, and to change the word; so a free and a move of the same object
 * do not meet. The class of an object never changes, and is part of the place:
 * it can be read before. A pin (zspage->zsl) keeps objects where they are after
 * class->lock was dropped. pool->lock is not needed for any of this.
 */

#ifdef CONFIG_ZSMALLOC_OWNED

/*
 * A place is [PFN | class_idx | obj_idx], like an obj, with the same number of
 * bits everywhere:
 *
 *	place	| PFN | CLASS_BITS + 1 | ZS_OBJS_PER_ZSPAGE_BITS |
 */
#define OWNED_CLASS_MASK	((1U << (CLASS_BITS + 1)) - 1)
#define OWNED_IDX_MASK		((1U << ZS_OBJS_PER_ZSPAGE_BITS) - 1)
#define OWNED_PFN_SHIFT		(ZS_OBJS_PER_ZSPAGE_BITS + CLASS_BITS + 1)
#define OWNED_PFN_BITS		(ZS_PLACE_BITS - OWNED_PFN_SHIFT)

/* What an object has where others have their handle. */
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
 * Takes a page for objects, unless a word cannot name it: 1 PiB of memory has
 * places at least. No place is above that of the highest page that was ever taken.
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

static struct size_class *owned_lock_class(struct zs_pool *pool, u64 place)
{
	unsigned int idx = place >> ZS_OBJS_PER_ZSPAGE_BITS & OWNED_CLASS_MASK;
	struct size_class *class;

	if (WARN_ON_ONCE(idx >= ZS_SIZE_CLASSES))
		return NULL;
	class = pool->size_class[idx];
	spin_lock(&class->lock);
	return class;
}

/* Where an object is, under class->lock or while it is pinned. */
struct owned_obj {
	struct zpdesc *zpdesc;
	struct zspage *zspage;
	unsigned int idx;
	unsigned int off;
	unsigned long head;
};

/* The object at a place. In line, as the parts are registers then. */
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
 * A word may be damaged: then there is no object of the class at its place.
 * pfn_valid() costs as much as a third of all the rest.
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
 * That, if it is the object with a name. Else a warning, once; and as an object is
 * left then whose word and device may go, none of the pool is moved any more.
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

/* Under class->lock: what cannot be found of the class by its word was noticed. */
static bool owned_is_damaged(struct zs_pool *pool)
{
	return READ_ONCE(pool->damaged);
}

static unsigned int owned_len(unsigned long head)
{
	return (head >> OWNED_LEN_SHIFT & ((1U << OWNED_LEN_BITS) - 1)) + 1;
}

/*
 * A pin is taken with class->lock, for which writers of zspage->zsl have to wait:
 * there is none. Lockdep is not told, as nobody ever waits for a pin to go.
 */
static void owned_pin(struct zspage *zspage)
{
	spin_lock(&zspage->zsl.lock);
	zspage->zsl.cnt++;
	spin_unlock(&zspage->zsl.lock);
}

/**
 * zs_owned_unpin - let an object be moved
 * @place: of an object that the caller has pinned
 */
void zs_owned_unpin(u64 place)
{
	struct zspage *zspage = get_zspage(pfn_zpdesc(place >> OWNED_PFN_SHIFT));

	spin_lock(&zspage->zsl.lock);
	zspage->zsl.cnt--;
	spin_unlock(&zspage->zsl.lock);
}
EXPORT_SYMBOL_GPL(zs_owned_unpin);

/* A new zspage whose pages have places, on no list. */
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
 * @nid: the node that new pages should be of
 * @name: by which find_word() will find the word of the object
 *
 * Return: the place of the object, which is pinned. -EINVAL: there is no data, or
 * no such name. -ENOSPC: @len is more than a page. -ENOMEM. -EOVERFLOW: the
 * memory is beyond what a word can name.
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
EXPORT_SYMBOL_GPL(zs_owned_store);

/* What a free object has there is the next free one. */
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

/* Frees an object, under class->lock. Memory that becomes free by that is kept. */
static __always_inline void owned_put_obj(struct zs_pool *pool,
					  struct size_class *class,
					  struct owned_obj *obj,
					  struct zs_emptied *emptied)
{
	struct zspage *zspage = obj->zspage;

	/* As obj_free(), which would look for all this again. */
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
 * zs_owned_free_emptied - give back memory that has become free
 * @pool: the pool it is of
 * @emptied: what zs_owned_free() has filled
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
EXPORT_SYMBOL_GPL(zs_owned_free_emptied);

/**
 * zs_owned_free_pinned - free an object that is pinned, once
 * @pool: the pool it is of
 * @place: where it is
 * @word: the word that names it, or NULL if none does
 * @new: what the word is to be then
 * @emptied: as for zs_owned_free()
 */
void zs_owned_free_pinned(struct zs_pool *pool, u64 place, u64 *word, u64 new,
			  struct zs_emptied *emptied)
{
	struct size_class *class = owned_lock_class(pool, place);
	struct owned_obj obj;

	if (!class)
		return;
	owned_at(class, place, &obj);
	/* Without class->lock it is not moved. */
	zs_owned_unpin(place);
	owned_put_obj(pool, class, &obj, emptied);
	if (word)
		WRITE_ONCE(*word, new);
	spin_unlock(&class->lock);
}
EXPORT_SYMBOL_GPL(zs_owned_free_pinned);

/**
 * zs_owned_free - free the object that a word names
 * @pool: the pool it is of
 * @word: the word, of which the caller knows that it is an object's
 * @name: the object's
 * @new: what the word is to be then
 * @emptied: where to keep memory that becomes free: the caller gives it back, when
 *	it has dropped its locks if it can
 *
 * Return: the length of the object. -EUCLEAN, and a warning once: the word is
 * changed, but no object with that name is where it said.
 */
int zs_owned_free(struct zs_pool *pool, u64 *word, u64 name, u64 new,
		  struct zs_emptied *emptied)
{
	struct size_class *class;
	struct owned_obj obj;
	int len = -EUCLEAN;

	class = owned_lock_class(pool, READ_ONCE(*word) >> ZS_PLACE_SHIFT);
	if (unlikely(!class)) {
		WRITE_ONCE(pool->damaged, true);
		WRITE_ONCE(*word, new);
		return len;
	}
	/* It is not moved any more: see owned_moved(). */
	if (owned_find_named(pool, class, READ_ONCE(*word) >> ZS_PLACE_SHIFT,
			     name, &obj)) {
		len = owned_len(obj.head);
		owned_put_obj(pool, class, &obj, emptied);
	}
	WRITE_ONCE(*word, new);
	spin_unlock(&class->lock);

	return len;
}
EXPORT_SYMBOL_GPL(zs_owned_free);

/**
 * zs_owned_read_begin - where the data of an object is
 * @pool: the pool it is of
 * @word: the word that names it, which is not freed meanwhile
 * @name: the object's
 * @sg: room for two entries, of which one or two are filled
 * @place: where to put what zs_owned_unpin() is to be called with afterwards
 *
 * Return: the length. -EUCLEAN, and a warning once: no object with that name is
 * where the word says. Nothing is pinned then.
 */
int zs_owned_read_begin(struct zs_pool *pool, u64 *word, u64 name,
			struct scatterlist *sg, u64 *place)
{
	struct size_class *class;
	struct owned_obj obj;
	unsigned int len, here;

	class = owned_lock_class(pool, READ_ONCE(*word) >> ZS_PLACE_SHIFT);
	if (unlikely(!class))
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
	sg_init_table(sg, here < len ? 2 : 1);
	sg_set_page(sg, zpdesc_page(obj.zpdesc), here, obj.off);
	if (here < len)
		sg_set_page(sg + 1, zpdesc_page(get_next_zpdesc(obj.zpdesc)),
			    len - here, 0);

	return len;
}
EXPORT_SYMBOL_GPL(zs_owned_read_begin);

/*
 * The obj that begins at an offset of a page that is being moved. A handle says it.
 * The word of an owner may be damaged: it is not asked.
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
 * An object was moved: its word follows. The object is in use and was not pinned,
 * and class->lock is held: so there is a word for its name, which stays.
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
 * @name: its name
 * @find_word: returns the word of the object with a name
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
EXPORT_SYMBOL_GPL(zs_create_owned_pool);

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
