/* SPDX-License-Identifier: Apache-2.0 */
#include "client/adapters/peers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "gpumem.h"

#define N_DEVICES_MAX 64

/* Devices for which memory was allocated: a bit each, once they and those before reach each other. */
static _Atomic uint64_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Devices that are no peers stay apart, as with other memory. */
static int enable(int device, int peer)
{
        int r = gpumem_enable_peer(NULL, device, peer);

        return r == GPUMEM_E_UNSUPPORTED ? 0 : r;
}

static int enable_both(int device, int other)
{
        int r = enable(other, device);
        int r_back = enable(device, other);

        return r ? r : r_back;
}

static int enable_all(int device, uint64_t others)
{
        int r = 0;

        for (int other = 0; other < N_DEVICES_MAX; other++) {
                int failed = others & UINT64_C(1) << other ? enable_both(device, other) : 0;

                if (!r)
                        r = failed;
        }
        return r;
}

/* A thread that comes meanwhile waits: its memory, too, is to be reached when it has it. */
int peers_note(int device)
{
        uint64_t bit = UINT64_C(1) << (device & (N_DEVICES_MAX - 1)), others;
        int r = 0;

        if (device < 0 || device >= N_DEVICES_MAX ||
            atomic_load_explicit(&used, memory_order_acquire) & bit)
                return 0;
        pthread_mutex_lock(&lock);
        others = atomic_load(&used);
        if (!(others & bit)) {
                r = enable_all(device, others);
                atomic_store(&used, others | bit);
        }
        pthread_mutex_unlock(&lock);
        return r;
}
