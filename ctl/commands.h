/* What gpumemctl can do, one function a command. Each returns the process's exit status. */
#pragma once

#include "client/link.h"
#include "ctl/limits.h"

enum exit_status {
        STATUS_OK = 0,
        STATUS_FAILURE = 1,   /* the daemon refused, or something failed */
        STATUS_USAGE = 2,     /* wrong option or command */
        STATUS_NO_DAEMON = 3, /* nobody listens on the socket, or answers */
};

enum output { OUTPUT_TABLE, OUTPUT_JSON };

struct arguments {
        enum output output;
        uint32_t pool;                                  /* PROTO_ALL_POOLS: every one */
        uint32_t scope;                                 /* PROTO_SCOPE_TENANT or PROTO_SCOPE_NODE */
        struct limit_change changes[LIMIT_CHANGES_MAX]; /* limits: in the order of --set */
        unsigned n_changes;
};

int command_stats(struct link *link, const struct arguments *arguments);
int command_devices(struct link *link, const struct arguments *arguments);
int command_clients(struct link *link, const struct arguments *arguments);
int command_blocks(struct link *link, const struct arguments *arguments);
int command_tenants(struct link *link, const struct arguments *arguments);
int command_reset_peaks(struct link *link, const struct arguments *arguments);
int command_free_all(struct link *link, const struct arguments *arguments);

/* "device" or "pinned", of a GPUMEM_DEVICE or GPUMEM_PINNED. */
const char *pool_kind_name(uint64_t kind);

/* Prints a value on stdout, or says on stderr that there was no memory for it (NULL is that too);
 * returns the exit status. */
struct json_t;
int print_json_value(struct json_t *take_value);

/* Says on stderr that `what` failed with this result, and why if the library has said so; returns STATUS_FAILURE or STATUS_NO_DAEMON. */
int report_failure(const char *what, int result);

/* The same in the daemon's words, if it has said why. */
int report_refusal(struct link *link, const char *what, int result);

/* The same of a request that --tenant would have narrowed to what everybody may. */
int report_refusal_of(struct link *link, const char *what, int result,
                      const struct arguments *arguments);
