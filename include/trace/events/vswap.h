/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM vswap

#if !defined(_TRACE_VSWAP_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_VSWAP_H

#include <linux/tracepoint.h>

struct vswap_decision;

/*
 * What the swap-in policy was told, and what it decided: all of it, so that the
 * decision can be made again elsewhere (kunit/host/src/bin/replay.rs). Numbers
 * are those of rust/mm/swapin.rs.
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

#endif /* _TRACE_VSWAP_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
