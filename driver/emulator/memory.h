/* cuMemAlloc's memory: a range of the device, reserved, mapped and accessible in one go. It belongs
 * to its context and goes with it. */
#pragma once

struct context;

void memory_context_ended(const struct context *context);
