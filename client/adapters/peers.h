/* SPDX-License-Identifier: Apache-2.0 */
/* Frameworks copy between devices, and their kernels read other devices' memory, without a call to their allocator.
 * cudaDeviceEnablePeerAccess lets them do so with memory of cudaMalloc, and not with memory that is mapped, as gpumemd's is. So the
 * devices for which a program allocates reach each other's memory as far as the driver allows. Any thread. */
#pragma once

/* Memory was allocated for the device. The first time all that it has and will have is reachable from each other such device, and
 * the other way round. Returns the first fault of the driver; devices that are no peers are none. */
int peers_note(int device);
