# SPDX-License-Identifier: GPL-2.0
# fio writes to files of a tmpfs that is larger than its cgroup. It verifies a checksum in each
# block.
# guest: timeout=120 mem=384M host=1 slow=1
. /vswap/tests/lib.sh

apps_on
mkdir -p /mnt/fio
mount -t tmpfs fio /mnt/fio

# verified_by_fio WHAT ARGS...: fio writes blocks with checksums, and reads and verifies all of them
verified_by_fio() {
	label=$1
	shift
	set -- --name=job --directory=/mnt/fio --numjobs=2 --thread --bs=4k --verify=crc32c \
		--do_verify=1 --verify_fatal=1 --buffer_compress_percentage=60 --refill_buffers \
		--allow_file_create=1 --group_reporting "$@"
	# Run once outside of the cgroup, so that the program's pages are not charged to it. A fault
	# that reads them again must not enter file systems in reclaim, so it cannot write pages of
	# tmpfs. If the cgroup had no other pages, the OOM killer would run.
	fio --size=64k "$@" > $TMP/first 2>&1
	rm -f /mnt/fio/*
	# memory.zswap.max sends pages to the disk, because compressed pages are charged to the
	# cgroup, too.
	cgroup apps memory.max=$((24 / SCALE + 40))M memory.zswap.max=16M
	before=$(swapped)
	check "$label: all sums are right" in_cgroup apps fio --size=$((12 / SCALE + 24))M "$@"
	cp $TMP/out $TMP/said
	check "$label: it says so" grep "err= 0" $TMP/said
	is "$label: pages were swapped out" "$(swapped)" -gt $((before + 2000))
	note "$(($(swapped) - before)) pages"
	rm -f /mnt/fio/*
	is "$label: no process is killed" "$(oom_kills apps)" -eq 0
	check "$label: the cgroup goes away" cgroup_gone apps
}

verified_by_fio "random writes" --rw=randwrite --ioengine=psync
verified_by_fio "mapped files" --rw=write --ioengine=mmap
umount /mnt/fio
all_back fio
finish
