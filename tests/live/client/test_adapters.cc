// SPDX-License-Identifier: Apache-2.0
// The entry points for frameworks, called as PyTorch and CuPy call them: from C++, through addresses, on threads that
// have no context. Prints TAP. GPUMEM_SOCKET names a daemon of one 256 MiB device.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "gpumem-adapters.h"

namespace {

using alloc_function = void *(size_t, int, void *);
using cupy_alloc_function = void *(void *, size_t, int);

constexpr size_t mib = size_t(1) << 20;
int n_cases, n_failed;

void check(const char *what, const std::function<bool()> &holds)
{
        bool is_so = false;
        std::thread([&] { is_so = holds(); }).join();
        n_failed += !is_so;
        std::printf("%s %d - %s\n", is_so ? "ok" : "not ok", ++n_cases, what);
}

bool begins_with(const std::string &text, const char *start)
{
        return text.rfind(start, 0) == 0;
}

// What its destructor says tells that the exception unwound the frames above the library's.
struct Unwound {
        bool *was;
        ~Unwound() { *was = true; }
};

std::string text_of_refusal(const std::function<void *()> &alloc)
{
        bool was_unwound = false;
        try {
                Unwound unwound{&was_unwound};
                alloc();
        } catch (const std::runtime_error &error) {
                return was_unwound ? error.what() : "not unwound";
        }
        return "nothing was thrown";
}

bool alloc_and_free(void *volatile address)
{
        auto *alloc = reinterpret_cast<alloc_function *>(address);
        void *pointer = alloc(mib, 0, nullptr);
        size_t n_bytes = 0;
        if (!pointer || gpumem_torch_base(static_cast<char *>(pointer) + 100, &n_bytes) != pointer)
                return false;
        gpumem_torch_free(pointer, mib, 0, nullptr);
        return n_bytes == mib && gpumem_adapters_failures() == 0;
}

bool torch_refuses()
{
        std::string text = text_of_refusal([] { return gpumem_torch_alloc(500 * mib, 0, nullptr); });
        return begins_with(text, "CUDA out of memory. Tried to allocate 500.00 MiB on GPU 0") &&
               text.find("all of") != std::string::npos;
}

bool other_faults_are_no_lack_of_memory()
{
        std::string text = text_of_refusal([] { return gpumem_torch_alloc(mib, 7, nullptr); });
        return begins_with(text, "gpumem: no memory. Tried to allocate 1.00 MiB on GPU 7");
}

bool pool_gives_null()
{
        return !gpumem_torch_pool_alloc(500 * mib, 0, nullptr) && !gpumem_torch_alloc(0, 0, nullptr);
}

uint64_t block_of(const void *pointer)
{
        gpumem_info info{};
        info.struct_size = sizeof(info);
        return gpumem_describe(nullptr, pointer, &info) ? 0 : info.block;
}

// Each has a block of its own, which no other allocation shares.
bool registered_memory_is_apart()
{
        void *small = gpumem_torch_pool_alloc(1000, 0, nullptr);
        void *one = gpumem_torch_registered_alloc(1000, 0, nullptr);
        void *other = gpumem_torch_registered_alloc(1000, 0, nullptr);
        bool is_apart = block_of(one) && block_of(other) && block_of(one) != block_of(other) &&
                        block_of(one) != block_of(small) && block_of(other) != block_of(small);
        for (void *pointer : {small, one, other})
                gpumem_torch_free(pointer, 1000, 0, nullptr);
        return is_apart && !gpumem_torch_registered_alloc(500 * mib, 0, nullptr) &&
               !gpumem_torch_registered_alloc(0, 0, nullptr) && gpumem_adapters_failures() == 0;
}

intptr_t default_stream() { return 0; }

bool cupy_allocates_and_frees()
{
        auto *alloc = reinterpret_cast<cupy_alloc_function *>(&gpumem_cupy_alloc);
        for (void *param : {static_cast<void *>(nullptr), reinterpret_cast<void *>(&default_stream)}) {
                void *pointer = alloc(param, mib, 0);
                std::thread([=] { gpumem_cupy_free(param, pointer, 0); }).join();
        }
        std::string text = text_of_refusal([] { return gpumem_cupy_alloc(nullptr, 500 * mib, 0); });
        return begins_with(text, "CUDA out of memory.") && gpumem_adapters_failures() == 0;
}

bool a_fraction_limits()
{
        gpumem_torch_set_fraction(0.25, 0);
        void *small = gpumem_torch_pool_alloc(32 * mib, 0, nullptr);
        void *large = gpumem_torch_pool_alloc(128 * mib, 0, nullptr);
        gpumem_torch_free(small, 32 * mib, 0, nullptr);
        gpumem_torch_empty_cache();
        gpumem_torch_set_fraction(1, 0);
        return small && !large;
}

struct Tensor { // as far as <dlpack/dlpack.h> 1.0 is looked at here
        uint32_t major, minor;
        void *manager;
        void (*deleter)(Tensor *);
        uint64_t flags;
        void *data;
        int32_t device_type, device_id, n_dims;
        uint8_t code, bits;
        uint16_t lanes;
        int64_t *shape, *strides;
        uint64_t n_offset_bytes;
};

bool dlpack_owns_the_memory()
{
        const gpumem_dlpack_type f32 = {2, 32, 1};
        const int64_t shape[] = {512, 512}, too_large[] = {512, 513}, negative[] = {-1, -1};
        DLManagedTensorVersioned *made = nullptr;
        void *pointer;
        if (gpumem_malloc_pinned(mib, &pointer) ||
            gpumem_to_dlpack(nullptr, pointer, 2, too_large, &f32, &made) != GPUMEM_E_BAD_REQUEST ||
            gpumem_to_dlpack(nullptr, pointer, 2, negative, &f32, &made) != GPUMEM_E_BAD_REQUEST ||
            gpumem_to_dlpack(nullptr, pointer, 2, shape, &f32, &made))
                return false;
        auto *tensor = reinterpret_cast<Tensor *>(made);
        bool is_right = tensor->major == 1 && tensor->data == pointer && tensor->device_type == 3 &&
                        tensor->n_dims == 2 && tensor->shape[1] == 512 && tensor->strides[0] == 512 &&
                        tensor->strides[1] == 1 && tensor->code == 2 && tensor->bits == 32;
        std::memset(pointer, 1, mib);
        std::thread([=] { tensor->deleter(tensor); }).join();
        gpumem_info info{};
        info.struct_size = sizeof(info);
        return is_right && gpumem_describe(nullptr, pointer, &info) == GPUMEM_E_NOT_OURS;
}

// DLPack wants no address then.
bool dlpack_of_no_elements()
{
        const gpumem_dlpack_type f32 = {2, 32, 1};
        const int64_t shape[] = {3, 0};
        DLManagedTensorVersioned *made = nullptr;
        void *pointer;
        if (gpumem_malloc_pinned(mib, &pointer) || gpumem_to_dlpack(nullptr, pointer, 2, shape, &f32, &made))
                return false;
        auto *tensor = reinterpret_cast<Tensor *>(made);
        const bool is_right = !tensor->data && tensor->shape[0] == 3 && tensor->shape[1] == 0;
        tensor->deleter(tensor);
        gpumem_info info{};
        info.struct_size = sizeof(info);
        return is_right && gpumem_describe(nullptr, pointer, &info) == GPUMEM_E_NOT_OURS;
}

} // namespace

int main()
{
        gpumem_adapters_set_wait_ms(0);
        check("torch's functions work by address on a thread without a context", [] {
                return alloc_and_free(reinterpret_cast<void *>(&gpumem_torch_alloc)) &&
                       alloc_and_free(reinterpret_cast<void *>(&gpumem_torch_pool_alloc)) &&
                       alloc_and_free(reinterpret_cast<void *>(&gpumem_torch_registered_alloc));
        });
        check("what is refused to torch is thrown, with torch's first words", torch_refuses);
        check("other faults do not say that memory is lacking", other_faults_are_no_lack_of_memory);
        check("a MemPool gets NULL for what is refused, and for 0 bytes", pool_gives_null);
        check("registered memory has blocks of its own", registered_memory_is_apart);
        check("CuPy's functions work, and free on other threads", cupy_allocates_and_frees);
        check("a memory fraction limits the process", a_fraction_limits);
        check("a DLPack tensor owns the memory until its deleter", dlpack_owns_the_memory);
        check("a DLPack tensor without elements owns it, too", dlpack_of_no_elements);
        check("no call has failed", [] { return gpumem_adapters_failures() == 0; });
        std::printf("1..%d\n", n_cases);
        return n_failed != 0;
}
