/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects of zsmalloc without handles.
 *
 * A handle is a slab object of 8 bytes that stores the place of an object. An
 * owner that has a word for each object anyway can store the place there. When
 * zsmalloc moves an object, it finds the word by the object's name, and changes
 * the place in it:
 *
 *		 63                                            6 5    0
 *		+-----------------------------------------------+------+
 *	word	|                    place                      |owner |
 *		+-----------------------------------------------+------+
 *
 *		 63                            17 16           1 0
 *		+--------------------------------+--------------+-+
 *	object	|             name               |  length - 1  |1|  data ...
 *		+--------------------------------+--------------+-+
 *
 * The lowest bits of the word belong to the owner, which may change them at any
 * time, by compare-and-exchange of the whole word. Once the object in a word
 * was unpinned, only zsmalloc makes other changes, until the object is freed.
 *
 * A new object is *pinned*: zsmalloc does not move it. The owner writes the
 * place into a word, and unpins the object. From then on, and until the object
 * is freed, the owner's find_word() returns that word for the name. zsmalloc
 * calls find_word() under class->lock. find_word() must not take a lock. The
 * owner frees memory that find_word() reads, and the word, only after an RCU
 * grace period: see owned_is_damaged().
 *
 * zs_create_owned_pool() may sleep. Of the other functions, only
 * zs_owned_store() allocates memory. It sleeps only if its gfp flags allow it.
 */
#ifndef _LINUX_ZSMALLOC_OWNED_H
#define _LINUX_ZSMALLOC_OWNED_H

#include <linux/types.h>

struct scatterlist;
struct zs_pool;
struct zspage;

#define ZS_PLACE_SHIFT	6
#define ZS_PLACE_BITS	(64 - ZS_PLACE_SHIFT)
#define ZS_NAME_BITS	47

typedef u64 *(*zs_find_word_t)(u64 name);

/* A list of zspages that have become empty. All zeros: the list is empty. */
struct zs_emptied {
	struct zspage *first;
};

struct zs_pool *zs_create_owned_pool(const char *name, zs_find_word_t find_word);

s64 zs_owned_store(struct zs_pool *pool, const void *data, size_t len,
		   gfp_t gfp, int nid, u64 name);
void zs_owned_unpin(u64 place);

int zs_owned_read_begin(struct zs_pool *pool, u64 *word, u64 name,
			struct scatterlist *sg, u64 *place);

int zs_owned_free(struct zs_pool *pool, u64 *word, u64 name, u64 new,
		  struct zs_emptied *emptied);
void zs_owned_free_pinned(struct zs_pool *pool, u64 place, u64 *word, u64 new,
			  struct zs_emptied *emptied);
void zs_owned_free_emptied(struct zs_pool *pool, struct zs_emptied *emptied);

#endif /* _LINUX_ZSMALLOC_OWNED_H */
