#include "history.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int history_open(struct history *history, const char *path, size_t capacity)
{
	size_t size = capacity * sizeof(struct history_record);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	void *memory = MAP_FAILED;
	if (ftruncate(fd, (off_t)size) == 0)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return -1;
	history->records = memory;
	history->capacity = capacity;
	atomic_init(&history->count, 0);
	return 0;
}

void history_close(struct history *history)
{
	if (history->records)
		munmap(history->records, history->capacity * sizeof(struct history_record));
	history->records = NULL;
}

void history_add(struct history *history, const struct history_record *record,
		 enum history_phase phase)
{
	if (!history->records)
		return;
	size_t index = atomic_fetch_add(&history->count, 1);
	if (index >= history->capacity)
		return;
	struct history_record *place = &history->records[index];
	memcpy(place, record, offsetof(struct history_record, phase));
	atomic_store_explicit(&place->phase, (uint32_t)phase, memory_order_release);
}

int history_overflowed(const struct history *history)
{
	return history->records && atomic_load(&history->count) > history->capacity;
}
