/* SPDX-License-Identifier: Apache-2.0 */
/* The test as a program that uses two devices, with short words for what it does with the memory of one from
 * the other. Device 0 is the owner where nothing else is said. Failures end the test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/size.h"
#include "driver/cuda.h"
#include "gpumem.h"

/* What is written and read. */
#define N_BYTES (4 * MIB)

extern struct gpu *gpus[2];
extern struct cuda cuda;
extern struct gpumem_client *client;

/* So many devices, as the process sees them, and a client. */
void peers_open(unsigned n_gpus);
void peers_close(unsigned n_gpus);

/* Its context is current then. */
struct gpumem_request on(unsigned device, uint64_t n_bytes);
void *must_alloc(unsigned device, uint64_t n_bytes, uint32_t flags);

/* In that device's stream. */
void must_free(unsigned device, void *pointer);

/* N_BYTES by that device's stream, which is waited for. */
void write_by(unsigned device, void *pointer, unsigned char byte);
void read_by(unsigned device, const void *pointer, unsigned char byte);

/* Each of the two finds what the other wrote. */
void check_both(void *pointer);

/* The driver says that the device may. */
bool is_reached(const void *pointer, int device);
