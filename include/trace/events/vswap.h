/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM vswap

#if !defined(_TRACE_VSWAP_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_VSWAP_H

#include <linux/tracepoint.h>

/* Values of @to in vswap_move: what backs the slots now. */
#define VSWAP_TO_MEMORY		0
#define VSWAP_TO_ZEROS		1
#define VSWAP_TO_DEVICE		2

TRACE_DEFINE_ENUM(VSWAP_TO_MEMORY);
TRACE_DEFINE_ENUM(VSWAP_TO_ZEROS);
TRACE_DEFINE_ENUM(VSWAP_TO_DEVICE);

/* A folio got virtual slots, which count for the cgroup with @memcg_id. */
TRACE_EVENT(vswap_alloc,
	TP_PROTO(unsigned long offset, unsigned int nr, unsigned short memcg_id),
	TP_ARGS(offset, nr, memcg_id),
	TP_STRUCT__entry(
		__field(unsigned long, offset)
		__field(unsigned int, nr)
		__field(unsigned short, memcg_id)
	),
	TP_fast_assign(
		__entry->offset = offset;
		__entry->nr = nr;
		__entry->memcg_id = memcg_id;
	),
	TP_printk("offset=%lu nr=%u memcg_id=%u",
		  __entry->offset, __entry->nr, __entry->memcg_id)
);

/* zswap has stored a page of a virtual or a physical entry. */
TRACE_EVENT(vswap_store,
	TP_PROTO(unsigned int type, unsigned long offset, unsigned int len),
	TP_ARGS(type, offset, len),
	TP_STRUCT__entry(
		__field(unsigned long, offset)
		__field(unsigned int, type)
		__field(unsigned int, len)
	),
	TP_fast_assign(
		__entry->offset = offset;
		__entry->type = type;
		__entry->len = len;
	),
	TP_printk("type=%u offset=%lu len=%u",
		  __entry->type, __entry->offset, __entry->len)
);

/*
 * zswap was asked for a folio. @error is 0 if zswap has loaded it, -ENOENT if
 * zswap does not have it, and another error if it could not be decompressed.
 */
TRACE_EVENT(vswap_load,
	TP_PROTO(unsigned int type, unsigned long offset, unsigned int nr, int error),
	TP_ARGS(type, offset, nr, error),
	TP_STRUCT__entry(
		__field(unsigned long, offset)
		__field(unsigned int, type)
		__field(unsigned int, nr)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->offset = offset;
		__entry->type = type;
		__entry->nr = nr;
		__entry->error = error;
	),
	TP_printk("type=%u offset=%lu nr=%u error=%d",
		  __entry->type, __entry->offset, __entry->nr, __entry->error)
);

/*
 * What backs virtual slots has changed: they are zero pages now, or are backed
 * by the device slots from @slot on, or by nothing, because a dirty folio has
 * the data. For pages that zswap takes, see vswap_store.
 */
TRACE_EVENT(vswap_move,
	TP_PROTO(unsigned long offset, unsigned int nr, unsigned int to,
		 unsigned int type, unsigned int slot),
	TP_ARGS(offset, nr, to, type, slot),
	TP_STRUCT__entry(
		__field(unsigned long, offset)
		__field(unsigned int, nr)
		__field(unsigned int, to)
		__field(unsigned int, type)
		__field(unsigned int, slot)
	),
	TP_fast_assign(
		__entry->offset = offset;
		__entry->nr = nr;
		__entry->to = to;
		__entry->type = type;
		__entry->slot = slot;
	),
	TP_printk("offset=%lu nr=%u to=%s type=%u slot=%u",
		  __entry->offset, __entry->nr,
		  __print_symbolic(__entry->to,
				   { VSWAP_TO_MEMORY, "memory" },
				   { VSWAP_TO_ZEROS, "zeros" },
				   { VSWAP_TO_DEVICE, "device" }),
		  __entry->type, __entry->slot)
);

/* zswap tried to write back @nr entries, and wrote @pages in @requests. */
TRACE_EVENT(vswap_writeback,
	TP_PROTO(unsigned int nr, unsigned int pages, unsigned int requests),
	TP_ARGS(nr, pages, requests),
	TP_STRUCT__entry(
		__field(unsigned int, nr)
		__field(unsigned int, pages)
		__field(unsigned int, requests)
	),
	TP_fast_assign(
		__entry->nr = nr;
		__entry->pages = pages;
		__entry->requests = requests;
	),
	TP_printk("nr=%u pages=%u requests=%u",
		  __entry->nr, __entry->pages, __entry->requests)
);

#ifdef CONFIG_RUST_VSWAP_SWAPIN
struct vswap_decision;

/*
 * Inputs and decision of the swap-in policy. The event has all of them, so that
 * kunit/host/src/bin/replay.rs can repeat the decision. trace() in
 * rust/mm/ffi/fault.rs defines the numbers.
 */
TRACE_EVENT(vswap_swapin_plan,
	TP_PROTO(const struct vswap_decision *decision),
	TP_ARGS(decision),
	TP_STRUCT__entry(
		__field(u64, page)
		__field(u64, record)
		__field(u64, next)
		__field(u8, touched)
		__field(u8, sampled)
		__field(u8, near)
		__field(u8, hint)
		__field(u8, source)
		__field(u8, flags)
		__field(u8, least)
		__field(u8, most)
		__field(u8, uniform)
		__field(u8, how)
		__field(u8, order)
		__field(u8, why)
	),
	TP_fast_assign(
		__entry->page = decision->page;
		__entry->record = decision->record;
		__entry->next = decision->next;
		__entry->touched = decision->touched;
		__entry->sampled = decision->sampled;
		__entry->near = decision->near;
		__entry->hint = decision->hint;
		__entry->source = decision->source;
		__entry->flags = decision->flags;
		__entry->least = decision->least;
		__entry->most = decision->most;
		__entry->uniform = decision->uniform;
		__entry->how = decision->how;
		__entry->order = decision->order;
		__entry->why = decision->why;
	),
	TP_printk("page=%llx record=%llx touched=%u sampled=%u near=%u hint=%u source=%u flags=%u least=%u most=%u uniform=%u how=%u order=%u why=%u next=%llx",
		  __entry->page, __entry->record, __entry->touched,
		  __entry->sampled, __entry->near, __entry->hint,
		  __entry->source, __entry->flags, __entry->least,
		  __entry->most, __entry->uniform, __entry->how, __entry->order,
		  __entry->why, __entry->next)
);
#endif

#endif /* _TRACE_VSWAP_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
