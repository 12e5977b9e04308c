// SPDX-License-Identifier: Apache-2.0
// gpumem.hpp and gpumem-resources.hpp, as C++ programs use them. Prints TAP. GPUMEM_SOCKET names a daemon of one device
// of 256 MiB, whose driver the program links.
#include <cuda.h>
#include <gpumem-resources.hpp>
#include <gpumem.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t mib = std::size_t(1) << 20;
int n_cases, n_failed;

void check(const char *what, const std::function<bool()> &holds)
{
        bool is_so = false;
        try {
                is_so = holds();
        } catch (const std::exception &error) {
                std::printf("# %s\n", error.what());
        }
        n_failed += !is_so;
        std::printf("%s %d - %s\n", is_so ? "ok" : "not ok", ++n_cases, what);
}

bool contains(const std::string &text, const std::string &part)
{
        if (text.find(part) != std::string::npos)
                return true;
        std::printf("# no \"%s\" in: %s\n", part.c_str(), text.c_str());
        return false;
}

bool is_live(const void *pointer)
{
        gpumem_info info{};
        info.struct_size = sizeof(info);
        return gpumem_describe(nullptr, pointer, &info) == 0 && info.base == pointer;
}

std::uint64_t requested(gpumem_kind kind)
{
        gpumem_stats stats{};
        stats.struct_size = sizeof(stats);
        gpumem::check(gpumem_get_stats(nullptr, kind, kind == GPUMEM_DEVICE ? 0 : GPUMEM_NEAREST, &stats),
                      "gpumem_get_stats");
        return stats.n_requested_bytes;
}

struct Stream {
        CUstream handle;
        Stream() { cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING); }
        ~Stream() { cuStreamDestroy(handle); }
        Stream(const Stream &) = delete;
};

// What a call throws.
struct Thrown {
        int code = 0;
        bool is_bad_alloc = false, is_exception = false;
        std::string text;
};

Thrown thrown_by(const std::function<void()> &call)
{
        Thrown thrown;
        try {
                call();
                return thrown;
        } catch (const gpumem::error &error) {
                thrown.code = error.code();
                thrown.text = error.what();
        }
        try {
                call();
        } catch (const std::bad_alloc &) {
                thrown.is_bad_alloc = true;
        } catch (...) {
        }
        try {
                call();
        } catch (const std::exception &error) {
                thrown.is_exception = thrown.text == error.what();
        } catch (...) {
        }
        return thrown;
}

template <class Buffer> bool buffer_frees()
{
        Stream stream;
        void *pointer;
        {
                Buffer plain(1000), in_stream(mib, stream.handle);
                pointer = in_stream.data();
                if (!is_live(plain.data()) || !is_live(pointer) || in_stream.size() != mib ||
                    in_stream.stream().get() != stream.handle || !in_stream)
                        return false;
        }
        if (is_live(pointer))
                return false;
        Buffer freed_now(mib, stream.handle), in_another(mib, stream.handle), none(0);
        pointer = in_another.data();
        freed_now.reset();
        in_another.reset(gpumem::stream_ref());
        none.reset();
        return !freed_now && !freed_now.size() && !in_another && !is_live(pointer) && !none.data();
}

bool buffers_move()
{
        gpumem::pinned_buffer first(4096), second;
        void *pointer = first.data();
        std::memset(first.as<char>(), 7, first.size());
        second = std::move(first);
        gpumem::pinned_buffer third(std::move(second));
        third = gpumem::pinned_buffer(std::move(third));
        if (third.data() != pointer || third.as<char>()[4095] != 7)
                return false;
        gpumem::pinned_buffer replaced(512);
        void *other = replaced.data();
        replaced = std::move(third);
        if (is_live(other) || replaced.data() != pointer)
                return false;
        void *kept = replaced.release();
        return !replaced && is_live(kept) && gpumem_free_sync(nullptr, kept) == 0;
}

static_assert(!std::is_copy_constructible_v<gpumem::device_buffer>);
static_assert(!std::is_copy_constructible_v<gpumem::client>);
static_assert(!std::is_copy_constructible_v<gpumem::attached>);
static_assert(std::is_nothrow_move_constructible_v<gpumem::device_buffer>);
static_assert(std::is_nothrow_move_assignable_v<gpumem::shared>);
static_assert(!std::is_convertible_v<gpumem::device_buffer, gpumem::pinned_buffer>);

bool memory_is_refused()
{
        Thrown thrown = thrown_by([] { gpumem::device_buffer buffer(500 * mib); });
        return thrown.code == GPUMEM_E_TOO_LARGE && thrown.is_bad_alloc && thrown.is_exception &&
               contains(thrown.text, "gpumem_alloc: ") && contains(thrown.text, "500.00 MiB");
}

bool other_failures_are_told()
{
        gpumem::alloc_options how;
        how.place = 7;
        Thrown place = thrown_by([&] { gpumem::device_buffer buffer(mib, how); });
        Thrown text = thrown_by([] { gpumem::token token("7"); });
        return place.code == GPUMEM_E_NO_POOL && !place.is_bad_alloc && place.is_exception &&
               contains(place.text, "gpumem_alloc: ") && contains(place.text, "7") &&
               text.code == GPUMEM_E_BAD_REQUEST && contains(text.text, "gpumem_token_parse: ");
}

bool own_clients_end()
{
        gpumem::client first, second(std::move(first));
        gpumem::alloc_options how;
        how.client = second.handle();
        {
                gpumem::device_buffer buffer(mib, how);
                if (buffer.client() != second.handle() || is_live(buffer.data()))
                        return false;
        }
        first = std::move(second);
        gpumem::connect_options nowhere;
        nowhere.socket_path = "/nowhere/gpumemd.sock";
        Thrown thrown = thrown_by([&] { gpumem::client client(nowhere); });
        return !second.handle() && thrown.code == GPUMEM_E_DISCONNECTED &&
               contains(thrown.text, "gpumem_connect: ") && contains(thrown.text, "/nowhere/gpumemd.sock");
}

struct Gets { // as cuda::stream_ref
        CUstream handle;
        CUstream get() const { return handle; }
};

struct Converts { // as rmm::cuda_stream_view
        CUstream handle;
        operator CUstream() const { return handle; }
        std::uint64_t get() const { return 1; }
};

bool streams_convert()
{
        Stream stream;
        const gpumem::stream_ref null(nullptr), copy(null);
        return gpumem::stream_ref(stream.handle).get() == stream.handle &&
               gpumem::stream_ref(Gets{stream.handle}).get() == stream.handle &&
               gpumem::stream_ref(Converts{stream.handle}).get() == stream.handle && !copy.get();
}

static_assert(!std::is_constructible_v<gpumem::stream_ref, int>);
static_assert(!std::is_constructible_v<gpumem::stream_ref, std::string>);
static_assert(!std::is_constructible_v<gpumem::stream_ref, gpumem::client>);

bool streams_are_registered()
{
        Stream stream;
        {
                gpumem::registered_stream registered(stream.handle), moved(std::move(registered));
                gpumem::device_buffer buffer(mib, stream.handle);
                buffer.record_use(nullptr);
                registered = std::move(moved);
                if (registered.stream().get() != stream.handle)
                        return false;
        }
        Thrown thrown = thrown_by([] {
                gpumem::registered_stream registered(CU_STREAM_PER_THREAD);
        });
        return gpumem_stream_unregister(nullptr, stream.handle) == GPUMEM_E_NOT_REGISTERED &&
               thrown.code == GPUMEM_E_UNSUPPORTED && contains(thrown.text, "gpumem_stream_register: ");
}

bool captures_are_announced()
{
        {
                gpumem::announced_capture outer, inner;
        }
        return gpumem_after_capture(nullptr) == GPUMEM_E_NO_CAPTURE;
}

bool memory_is_shared()
{
        gpumem::alloc_options how;
        how.flags = GPUMEM_SHAREABLE;
        gpumem::pinned_buffer buffer(1000, how);
        std::strcpy(buffer.as<char>(), "shared");
        gpumem::token revoked, kept;
        {
                gpumem::shared shared(buffer), other(buffer);
                revoked = shared.token();
                kept = other.release();
                gpumem::shared moved(std::move(shared));
                gpumem::attached attached{gpumem::token(moved.token().text())};
                gpumem::attached same(std::move(attached));
                if (attached.data() || same.size() != 1000 || std::strcmp(same.as<char>(), "shared"))
                        return false;
                same.reset();
        }
        gpumem::attached again(kept);
        Thrown thrown = thrown_by([&] { gpumem::attached attached(revoked); });
        Thrown unshareable = thrown_by([] {
                gpumem::pinned_buffer plain(1000);
                gpumem::shared shared(plain);
        });
        return again.data() && thrown.code == GPUMEM_E_NO_TOKEN && contains(thrown.text, "gpumem_attach: ") &&
               unshareable.code == GPUMEM_E_NOT_SHAREABLE;
}

// As CUDA's properties, and its way to ask for them.
struct device_accessible {};
struct host_accessible {};

template <class Resource, class Property, class = void> struct has : std::false_type {};
template <class Resource, class Property>
struct has<Resource, Property,
           std::void_t<decltype(get_property(std::declval<const Resource &>(), std::declval<Property>()))>>
        : std::true_type {};

static_assert(has<gpumem::device_resource<device_accessible>, device_accessible>::value);
static_assert(!has<gpumem::device_resource<device_accessible>, host_accessible>::value);
static_assert(has<gpumem::pinned_resource<device_accessible, host_accessible>, host_accessible>::value);
static_assert(noexcept(std::declval<gpumem::device_resource<> &>().deallocate(gpumem::stream_ref(), nullptr, 1)));

template <class Resource> bool resource_allocates()
{
        Stream stream;
        Resource resource, copy(resource);
        void *pointer = resource.allocate(Gets{stream.handle}, 1000, 512);
        bool is_right = is_live(pointer) && !resource.allocate(stream.handle, 0);
        copy.deallocate(stream.handle, pointer, 1000, 512);
        is_right = is_right && !is_live(pointer);
        void *sync = resource.allocate_sync(1000), *old = resource.allocate_async(1000, 256, stream.handle);
        is_right = is_right && is_live(sync) && is_live(old);
        resource.deallocate_sync(sync, 1000);
        resource.deallocate_async(old, 1000, 256, stream.handle);
        void *oldest = resource.allocate(1000, 64);
        resource.deallocate(oldest, 1000, 64);
        resource.deallocate(stream.handle, nullptr, 0);
        Thrown thrown = thrown_by([&] { resource.allocate(stream.handle, 1000, 1024); });
        Thrown refused = thrown_by([&] { resource.allocate(stream.handle, mib * mib); });
        return is_right && !is_live(sync) && !is_live(oldest) && thrown.code == GPUMEM_E_BAD_REQUEST &&
               contains(thrown.text, "alignment 1024 (expected a power of two, 512 at most)") && refused.is_bad_alloc;
}

bool resources_compare()
{
        gpumem::client client;
        gpumem::alloc_options how, waits;
        how.client = client.handle();
        waits.wait = std::chrono::seconds(1);
        gpumem::device_resource<> plain, patient(waits), other(how);
        return plain == patient && plain != other && other == gpumem::device_resource<>(how);
}

std::atomic<bool> is_done{false};

// Memory that the default stream freed, and whose work is under way, is no other stream's before the call's end.
bool allocate_sync_waits()
{
        gpumem::device_resource<> resource;
        void *first = resource.allocate(gpumem::stream_ref(), mib);
        is_done = false;
        cuLaunchHostFunc(
                nullptr,
                [](void *) {
                        std::this_thread::sleep_for(std::chrono::milliseconds(50));
                        is_done = true;
                },
                nullptr);
        resource.deallocate(gpumem::stream_ref(), first, mib);
        void *second = resource.allocate_sync(mib);
        bool was_done = is_done;
        resource.deallocate_sync(second, mib);
        return was_done;
}

// RMM's class before 26.06.
struct OldResource {
        virtual ~OldResource() = default;
        void *allocate(std::size_t n_bytes, Converts stream) { return do_allocate(n_bytes, stream); }
        void deallocate(void *pointer, std::size_t n_bytes, Converts stream) { do_deallocate(pointer, n_bytes, stream); }
        bool is_equal(const OldResource &other) const { return do_is_equal(other); }

private:
        virtual void *do_allocate(std::size_t n_bytes, Converts stream) = 0;
        virtual void do_deallocate(void *pointer, std::size_t n_bytes, Converts stream) = 0;
        virtual bool do_is_equal(const OldResource &other) const noexcept { return this == &other; }
};

struct AnotherResource final : OldResource {
private:
        void *do_allocate(std::size_t, Converts) override { return nullptr; }
        void do_deallocate(void *, std::size_t, Converts) override {}
};

bool a_base_class_is_served()
{
        Stream stream;
        gpumem::rmm_resource<OldResource, Converts> resource, same;
        AnotherResource other;
        OldResource &base = resource;
        void *pointer = base.allocate(mib, Converts{stream.handle});
        bool was_live = is_live(pointer);
        base.deallocate(pointer, mib, Converts{stream.handle});
        return was_live && !is_live(pointer) && base.is_equal(same) && !base.is_equal(other);
}

bool containers_take_pinned_memory()
{
        std::vector<int, gpumem::pinned_allocator<int>> first(1000, 7), second(first);
        second.resize(100000, 8);
        const void *pointer = second.data();
        first = std::move(second);
        std::list<int, gpumem::pinned_allocator<int>> list(first.begin(), first.begin() + 3);
        std::vector<int, gpumem::pinned_allocator<int>> none;
        none.swap(first);
        return none.data() == pointer && is_live(pointer) && none[999] == 7 && none[99999] == 8 &&
               list.back() == 7 && first.empty();
}

template <class T> struct DevicePointer { // as thrust::device_ptr
        using element_type = T;
        explicit DevicePointer(T *pointer) : pointer_(pointer) {}
        T *get() const { return pointer_; }

private:
        T *pointer_;
};

bool allocators_have_streams()
{
        Stream stream;
        using Allocator = gpumem::device_allocator<double, DevicePointer<double>>;
        Allocator plain, in_stream(stream.handle);
        std::allocator_traits<Allocator>::rebind_alloc<char> rebound(in_stream);
        DevicePointer<double> memory = in_stream.allocate(1000);
        bool was_live = is_live(memory.get());
        in_stream.deallocate(memory, 1000);
        DevicePointer<char> bytes = rebound.allocate(1);
        rebound.deallocate(bytes, 1);
        plain.deallocate(plain.allocate(1), 1);
        bool is_refused = false;
        try {
                (void)plain.allocate(static_cast<std::size_t>(-1) / 4);
        } catch (const std::bad_array_new_length &) {
                is_refused = true;
        }
        return was_live && is_refused && rebound == in_stream && plain != in_stream && plain == Allocator() &&
               rebound.stream().get() == stream.handle;
}

bool threads_without_a_context_work()
{
        bool is_so = false;
        gpumem::device_buffer ends_there(mib);
        std::thread([&is_so, buffer = std::move(ends_there)]() mutable {
                gpumem::device_resource<> resource;
                void *pointer = resource.allocate(gpumem::stream_ref(), mib);
                resource.deallocate(gpumem::stream_ref(), pointer, mib);
                Thrown thrown = thrown_by([&] { buffer.reset(); });
                void *memory = buffer.data();
                bool was_live = is_live(memory);
                buffer = gpumem::device_buffer();
                is_so = !is_live(pointer) && thrown.code == GPUMEM_E_NO_CONTEXT && was_live && !is_live(memory);
        }).join();
        return is_so && gpumem::failures() == 0;
}

// In a stream that the default stream does not wait for. The thread has no context.
bool attached_memory_is_detached_after_all_work()
{
        gpumem::alloc_options how;
        how.flags = GPUMEM_SHAREABLE;
        Stream stream;
        gpumem::device_buffer buffer(mib, how);
        gpumem::shared shared(buffer);
        auto plain = std::make_unique<gpumem::attached>(shared.token());
        auto in_stream = std::make_unique<gpumem::attached>(shared.token(), gpumem::stream_ref());
        void *first = plain->data(), *second = in_stream->data();
        bool was_done = false;
        is_done = false;
        cuLaunchHostFunc(
                stream.handle,
                [](void *) {
                        std::this_thread::sleep_for(std::chrono::milliseconds(50));
                        is_done = true;
                },
                nullptr);
        plain.reset();
        was_done = is_done;
        std::thread([&] { in_stream.reset(); }).join();
        return was_done && !is_live(first) && !is_live(second) && gpumem::failures() == 0;
}

bool a_forked_child_frees_nothing()
{
        gpumem::device_buffer buffer(mib);
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
                buffer = gpumem::device_buffer();
                _exit(gpumem::failures() != 0);
        }
        return waitpid(child, &status, 0) == child && status == 0 && is_live(buffer.data());
}

// The child ends copies of the parent's objects: the parent's token is as good as before.
bool a_forked_child_ends_nothing()
{
        gpumem::alloc_options how;
        how.flags = GPUMEM_SHAREABLE;
        Stream stream;
        gpumem::pinned_buffer buffer(1000, how);
        auto shared = std::make_unique<gpumem::shared>(buffer);
        auto attached = std::make_unique<gpumem::attached>(shared->token());
        auto registered = std::make_unique<gpumem::registered_stream>(stream.handle);
        auto announced = std::make_unique<gpumem::announced_capture>();
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
                *shared = gpumem::shared(std::move(*shared));
                shared.reset();
                attached.reset();
                registered.reset();
                announced.reset();
                _exit(gpumem::failures() != 0);
        }
        bool is_so = waitpid(child, &status, 0) == child && status == 0 && is_live(attached->data());
        gpumem::attached again(shared->token());
        return is_so && again.data();
}

bool nothing_is_left()
{
        return requested(GPUMEM_DEVICE) == 0 && requested(GPUMEM_PINNED) == 0 && gpumem::failures() == 0;
}

bool failures_are_counted()
{
        {
                gpumem::pinned_buffer buffer(1000);
                gpumem_free_sync(nullptr, buffer.data());
        }
        return gpumem::failures() == 1;
}

} // namespace

int main()
{
        CUdevice device;
        CUcontext context;
        if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
            cuCtxSetCurrent(context))
                return 1;
        check("device memory is freed with its buffer", buffer_frees<gpumem::device_buffer>);
        check("so is pinned memory", buffer_frees<gpumem::pinned_buffer>);
        check("buffers move and are left", buffers_move);
        check("memory that is refused is a std::bad_alloc with the refusal's text", memory_is_refused);
        check("other failures are none", other_failures_are_told);
        check("a client of the program's own ends with its object", own_clients_end);
        check("a stream is made of handles and of objects that have one", streams_convert);
        check("a stream is registered as long as the object lives", streams_are_registered);
        check("captures are announced as long as the object lives", captures_are_announced);
        check("tokens are revoked, and attached memory is detached, with their objects", memory_is_shared);
        check("a device resource allocates by all its names",
              resource_allocates<gpumem::device_resource<device_accessible>>);
        check("so does a pinned resource",
              resource_allocates<gpumem::pinned_resource<device_accessible, host_accessible>>);
        check("resources of one client are equal", resources_compare);
        check("allocate_sync waits for the context's work", allocate_sync_waits);
        check("a base class as RMM's is served", a_base_class_is_served);
        check("containers take pinned memory", containers_take_pinned_memory);
        check("allocators keep their stream", allocators_have_streams);
        check("threads without a context allocate and free", threads_without_a_context_work);
        check("attached memory is detached after all work", attached_memory_is_detached_after_all_work);
        check("a forked child frees nothing of its parent's", a_forked_child_frees_nothing);
        check("nor does it end what else is its parent's", a_forked_child_ends_nothing);
        check("nothing is left, and no call failed", nothing_is_left);
        check("a free that fails in a destructor is counted", failures_are_counted);
        std::printf("1..%d\n", n_cases);
        return n_failed != 0;
}
