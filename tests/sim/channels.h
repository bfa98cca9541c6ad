/* Who listens to which channel of a simulated server; plain and sharded channels are apart. */
#ifndef SIM_CHANNELS_H
#define SIM_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "keyspace.h"

struct sim_listening {
	void *listener;
	bool sharded;
	size_t size;
	char *channel;
};

struct sim_channels {
	struct sim_listening *all; /* in the order in which they began to listen */
	size_t count, room;
};

/* Listening twice is listening once; so is leaving. */
void sim_channels_join(struct sim_channels *channels, void *listener, bool sharded,
		       struct sim_word channel);
void sim_channels_leave(struct sim_channels *channels, const void *listener, bool sharded,
			struct sim_word channel);
void sim_channels_leave_all(struct sim_channels *channels, const void *listener);
void sim_channels_clear(struct sim_channels *channels);

/* To how many channels of that sort it listens. */
size_t sim_channels_of(const struct sim_channels *channels, const void *listener, bool sharded);
size_t sim_channels_listeners(const struct sim_channels *channels, bool sharded,
			      struct sim_word channel);

/* Hands the message, as it goes over the wire, to all that listen: how many. */
size_t sim_channels_publish(const struct sim_channels *channels, bool sharded,
			    struct sim_word channel, struct sim_word message,
			    void (*tell)(void *listener, const void *bytes, size_t size));

#endif
