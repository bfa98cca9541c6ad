/* Names that Redisson derives from a lock's name. */
#include <stdlib.h>
#include <string.h>

#include "sync/recipe.h"

char *lk__derived_name(const char *prefix, const char *name, size_t name_size, size_t *size_out)
{
	int tagged = memchr(name, '{', name_size) != NULL;
	size_t prefix_size = strlen(prefix);
	char *derived = malloc(prefix_size + name_size + 4);
	if (!derived)
		return NULL;
	char *end = derived + prefix_size;
	memcpy(derived, prefix, prefix_size);
	*end++ = ':';
	if (!tagged)
		*end++ = '{';
	memcpy(end, name, name_size);
	end += name_size;
	if (!tagged)
		*end++ = '}';
	*end = 0;
	*size_out = (size_t)(end - derived);
	return derived;
}
