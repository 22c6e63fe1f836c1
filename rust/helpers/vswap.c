// SPDX-License-Identifier: GPL-2.0

/*
 * The inline functions of the swap table and of swap entries: the tests in
 * rust/mm/word_kunit.rs check the words that Rust makes and reads with them.
 */
#ifdef CONFIG_RUST_VSWAP_KUNIT_TEST

#include <linux/leafops.h>
#include <linux/swapops.h>
#include <linux/xarray.h>
#include "../../mm/swap.h"
#include "../../mm/swap_table.h"

__rust_helper unsigned long rust_helper_null_to_swp_tb(void)
{
	return null_to_swp_tb();
}

__rust_helper unsigned long rust_helper_pfn_to_swp_tb(unsigned long pfn,
						      unsigned char flags)
{
	return pfn_to_swp_tb(pfn, flags);
}

__rust_helper unsigned long rust_helper_folio_to_swp_tb(struct folio *folio,
							unsigned char flags)
{
	return folio_to_swp_tb(folio, flags);
}

__rust_helper unsigned long rust_helper_shadow_to_swp_tb(void *shadow,
							 unsigned char flags)
{
	return shadow_to_swp_tb(shadow, flags);
}

__rust_helper bool rust_helper_swp_tb_is_null(unsigned long swp_tb)
{
	return swp_tb_is_null(swp_tb);
}

__rust_helper bool rust_helper_swp_tb_is_folio(unsigned long swp_tb)
{
	return swp_tb_is_folio(swp_tb);
}

__rust_helper bool rust_helper_swp_tb_is_shadow(unsigned long swp_tb)
{
	return swp_tb_is_shadow(swp_tb);
}

__rust_helper bool rust_helper_swp_tb_is_bad(unsigned long swp_tb)
{
	return swp_tb_is_bad(swp_tb);
}

__rust_helper bool rust_helper_swp_tb_is_countable(unsigned long swp_tb)
{
	return swp_tb_is_countable(swp_tb);
}

__rust_helper struct folio *rust_helper_swp_tb_to_folio(unsigned long swp_tb)
{
	return swp_tb_to_folio(swp_tb);
}

__rust_helper void *rust_helper_swp_tb_to_shadow(unsigned long swp_tb)
{
	return swp_tb_to_shadow(swp_tb);
}

__rust_helper unsigned char rust_helper___swp_tb_get_flags(unsigned long swp_tb)
{
	return __swp_tb_get_flags(swp_tb);
}

__rust_helper int rust_helper_swp_tb_get_count(unsigned long swp_tb)
{
	return swp_tb_get_count(swp_tb);
}

__rust_helper unsigned long rust_helper___swp_tb_mk_count(unsigned long swp_tb,
							  int count)
{
	return __swp_tb_mk_count(swp_tb, count);
}

__rust_helper void *rust_helper_xa_mk_value(unsigned long v)
{
	return xa_mk_value(v);
}

__rust_helper swp_entry_t rust_helper_swp_entry(unsigned long type,
						pgoff_t offset)
{
	return swp_entry(type, offset);
}

__rust_helper unsigned int rust_helper_swp_type(swp_entry_t entry)
{
	return swp_type(entry);
}

__rust_helper pgoff_t rust_helper_swp_offset(swp_entry_t entry)
{
	return swp_offset(entry);
}

__rust_helper unsigned int rust_helper_swp_cluster_offset(swp_entry_t entry)
{
	return swp_cluster_offset(entry);
}

__rust_helper pte_t rust_helper_softleaf_to_pte(softleaf_t entry)
{
	return softleaf_to_pte(entry);
}

__rust_helper softleaf_t rust_helper_softleaf_from_pte(pte_t pte)
{
	return softleaf_from_pte(pte);
}

#endif /* CONFIG_RUST_VSWAP_KUNIT_TEST */
