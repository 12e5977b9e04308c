// SPDX-License-Identifier: Apache-2.0
// The functions of libgpumem-client that the extension calls, what they say of memory, and torch's figures of it.
// Included by one source: what torch's headers cost is paid once. Any thread, after gpumem_torch_extension_open.
#pragma once

#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <gpumem-adapters.h>
#include <gpumem.h>

namespace gpumem_torch
{

using c10::DeviceIndex;

// The functions that are called, by their names in libgpumem-client.
#define FUNCTIONS(F)                  \
        F(gpumem_attach)              \
        F(gpumem_describe)            \
        F(gpumem_detach)              \
        F(gpumem_get_figures)         \
        F(gpumem_get_stats)           \
        F(gpumem_last_refusal)        \
        F(gpumem_pressure)            \
        F(gpumem_reset_peaks)         \
        F(gpumem_share)               \
        F(gpumem_strerror)            \
        F(gpumem_token_format)        \
        F(gpumem_token_parse)         \
        F(gpumem_torch_base)          \
        F(gpumem_torch_empty_cache)   \
        F(gpumem_torch_free)          \
        F(gpumem_torch_init)          \
        F(gpumem_torch_own_alloc)     \
        F(gpumem_torch_pool_alloc)    \
        F(gpumem_torch_record_stream) \
        F(gpumem_torch_set_fraction)

struct Library {
#define MEMBER(name) decltype(&::name) name;
        FUNCTIONS(MEMBER)
#undef MEMBER
};
inline Library library;

// Of gpumem_alloc: GPUMEM_SHAREABLE and GPUMEM_REGISTERED, where this thread's allocations take blocks of their own.
inline thread_local uint32_t own_block_flags;

constexpr size_t rounded_to = 512;

inline std::string size_text(uint64_t n_bytes)
{
        const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
        double size = static_cast<double>(n_bytes);
        char text[40];
        int unit = 0;
        for (; size >= 1024 && unit < 4; unit++)
                size /= 1024;
        (void)std::snprintf(text, sizeof(text), unit ? "%.2f %s" : "%.0f %s", size, units[unit]);
        return text;
}

inline bool lacks_memory(int code)
{
        return code == GPUMEM_E_REFUSED || code == GPUMEM_E_LIMIT || code == GPUMEM_E_TOO_LARGE ||
               code == GPUMEM_E_DEVICE_FULL || code == GPUMEM_E_TIMED_OUT;
}

inline gpumem_refusal last_refusal()
{
        gpumem_refusal refusal{};
        refusal.struct_size = sizeof(refusal);
        if (library.gpumem_last_refusal(nullptr, &refusal))
                refusal.code = 0;
        return refusal;
}

inline std::string reason(int code)
{
        const gpumem_refusal refusal = last_refusal();
        return refusal.code == code ? refusal.text : library.gpumem_strerror(code);
}

inline gpumem_stats stats_of(DeviceIndex device)
{
        gpumem_stats stats{};
        stats.struct_size = sizeof(stats);
        if (library.gpumem_get_stats(nullptr, GPUMEM_DEVICE, device, &stats))
                return gpumem_stats{};
        return stats;
}

// A figure of gpumem_get_figures; 0 if it is not said.
inline uint64_t figure(DeviceIndex device, const char *name)
{
        const char *names[64];
        uint64_t values[64];
        size_t n = 0;
        if (library.gpumem_get_figures(nullptr, GPUMEM_DEVICE, device, names, values, 64, &n))
                return 0;
        for (size_t i = 0; i < n && i < 64; i++) {
                if (!std::strcmp(names[i], name))
                        return values[i];
        }
        return 0;
}

using Stat = c10::CachingAllocator::Stat;
using Stats = c10::CachingDeviceAllocator::DeviceStats;
using StatArray = c10::CachingAllocator::StatArray;

// Torch has figures of all allocations, of small and of large ones. Small and large ones are alike here.
inline Stat &all(StatArray &stats)
{
        return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

inline void count(Stats &stats, size_t n_bytes, void (Stat::*change)(size_t))
{
        const size_t n_rounded = (n_bytes + rounded_to - 1) / rounded_to * rounded_to;
        for (StatArray *number : {&stats.allocation, &stats.active})
                (all(*number).*change)(1);
        for (StatArray *bytes : {&stats.allocated_bytes, &stats.active_bytes})
                (all(*bytes).*change)(n_rounded);
        (all(stats.requested_bytes).*change)(n_bytes);
}

template <class Do> void each_counted(Stats &stats, Do change)
{
        for (StatArray *counted : {&stats.allocation, &stats.active, &stats.allocated_bytes,
                                   &stats.active_bytes, &stats.requested_bytes})
                change(all(*counted));
}

} // namespace gpumem_torch
