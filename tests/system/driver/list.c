/* What the driver can be asked for: conformance finds each kind by it. */
#include "driver.h"

#include <stdio.h>
#include <string.h>

struct list {
	char text[1 << 14];
	size_t size;
};

static void add(struct list *list, const char *kind, const char *verb)
{
	int wrote = snprintf(list->text + list->size, sizeof(list->text) - list->size, "%s%s:%s",
			     list->size ? " " : "", kind, verb);
	list->size += (size_t)wrote;
}

void list_run(struct answer *answer)
{
	static struct list list;
	const char *kind, *verb;
	list.size = 0;
	for (size_t i = 0; (kind = kind_at(i)); i++)
		for (size_t j = 0; (verb = lock_verb_at(j)); j++)
			add(&list, kind, verb);
	for (size_t i = 0; (verb = synchronizer_at(i, &kind)); i++)
		add(&list, kind, verb);
	for (size_t i = 0; (verb = client_verb_at(i)); i++)
		add(&list, "client", verb);
	answer_text(answer, "operations", list.text, list.size);
}
