#include "channels.h"

#include <stdlib.h>
#include <string.h>

#include "resp.h"

static bool is_on(const struct sim_listening *one, bool sharded, struct sim_word channel)
{
	return one->sharded == sharded && one->size == channel.size &&
	       memcmp(one->channel, channel.bytes, channel.size) == 0;
}

static struct sim_listening *find(const struct sim_channels *channels, const void *listener,
				  bool sharded, struct sim_word channel)
{
	for (size_t i = 0; i < channels->count; i++)
		if (channels->all[i].listener == listener &&
		    is_on(&channels->all[i], sharded, channel))
			return &channels->all[i];
	return NULL;
}

static void drop(struct sim_channels *channels, struct sim_listening *one)
{
	free(one->channel);
	channels->count--;
	memmove(one, one + 1, (size_t)(&channels->all[channels->count] - one) * sizeof(*one));
}

void sim_channels_join(struct sim_channels *channels, void *listener, bool sharded,
		       struct sim_word channel)
{
	if (find(channels, listener, sharded, channel))
		return;
	if (channels->count == channels->room) {
		channels->room = channels->room ? 2 * channels->room : 16;
		channels->all = realloc(channels->all, channels->room * sizeof(*channels->all));
	}
	char *copy = malloc(channel.size + 1);
	memcpy(copy, channel.bytes, channel.size);
	copy[channel.size] = '\0';
	channels->all[channels->count++] = (struct sim_listening){listener, sharded, channel.size,
								  copy};
}

void sim_channels_leave(struct sim_channels *channels, const void *listener, bool sharded,
			struct sim_word channel)
{
	struct sim_listening *one = find(channels, listener, sharded, channel);
	if (one)
		drop(channels, one);
}

void sim_channels_leave_all(struct sim_channels *channels, const void *listener)
{
	for (size_t i = channels->count; i > 0; i--)
		if (channels->all[i - 1].listener == listener)
			drop(channels, &channels->all[i - 1]);
}

void sim_channels_clear(struct sim_channels *channels)
{
	for (size_t i = 0; i < channels->count; i++)
		free(channels->all[i].channel);
	free(channels->all);
	*channels = (struct sim_channels){0};
}

size_t sim_channels_of(const struct sim_channels *channels, const void *listener, bool sharded)
{
	size_t count = 0;
	for (size_t i = 0; i < channels->count; i++)
		count += channels->all[i].listener == listener &&
			 channels->all[i].sharded == sharded;
	return count;
}

size_t sim_channels_listeners(const struct sim_channels *channels, bool sharded,
			      struct sim_word channel)
{
	size_t count = 0;
	for (size_t i = 0; i < channels->count; i++)
		count += is_on(&channels->all[i], sharded, channel);
	return count;
}

size_t sim_channels_publish(const struct sim_channels *channels, bool sharded,
			    struct sim_word channel, struct sim_word message,
			    void (*tell)(void *listener, const void *bytes, size_t size))
{
	size_t heard = 0;
	struct lk__buffer out = {0};
	for (size_t i = 0; i < channels->count; i++) {
		if (!is_on(&channels->all[i], sharded, channel))
			continue;
		if (heard++ == 0) {
			sim_say_array(&out, 3);
			sim_say_bulk(&out, sim_word(sharded ? "smessage" : "message"));
			sim_say_bulk(&out, channel);
			sim_say_bulk(&out, message);
		}
		tell(channels->all[i].listener, lk__buffer_front(&out), lk__buffer_size(&out));
	}
	lk__buffer_free(&out);
	return heard;
}
