/* SPDX-License-Identifier: Apache-2.0 */
// PyTorch's allocator of device memory, called from C++, as a rival: see rival.h. The orders
// are those of orders.c; the patterns are the same code.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/pairs.h"
#include "bench/replace.h"

namespace {

using Clock = std::chrono::steady_clock;
namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr unsigned n_steps = 1024, n_batches = 15;
constexpr unsigned n_thread_steps = 2048, n_thread_batches = 7, n_thread_warm = 2;
constexpr uint32_t n_live = 1000;

double ns_since(Clock::time_point start)
{
        return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double median(std::vector<double> values)
{
        std::sort(values.begin(), values.end());
        return values[values.size() / 2];
}

void check(cudaError_t error)
{
        if (error != cudaSuccess)
                throw std::runtime_error(cudaGetErrorString(error));
}

// The pattern's argument is the stream. Errors are exceptions.
int alloc(void *stream, uint64_t n_bytes, void **ret_pointer)
{
        *ret_pointer =
                allocator::raw_alloc_with_stream(n_bytes, static_cast<cudaStream_t>(stream));
        return 0;
}

int end(void *, void *pointer)
{
        allocator::raw_delete(pointer);
        return 0;
}

cudaStream_t main_stream()
{
        static const cudaStream_t stream = c10::cuda::getStreamFromPool(false, 0).stream();

        return stream;
}

template <typename Steps> double time_repetition(unsigned n, const Steps &steps)
{
        std::vector<double> batches;

        steps(n);
        for (unsigned i = 0; i < n_batches; i++) {
                const auto start = Clock::now();

                steps(n);
                batches.push_back(ns_since(start) / n);
        }
        return median(batches);
}

double order_hot(const std::string &)
{
        static pairs state;
        static const int filled = pairs_fill(&state, alloc, main_stream());

        (void)filled;
        return time_repetition(n_steps, [](unsigned n) {
                pairs_steps(&state, n, alloc, end, main_stream());
        });
}

double order_random(const std::string &)
{
        static replace state;
        static const int filled = replace_init(&state, n_live, REPLACE_WIDE, 1) +
                                  replace_fill(&state, alloc, main_stream());

        (void)filled;
        return time_repetition(n_steps, [](unsigned n) {
                replace_steps(&state, n, alloc, end, main_stream());
        });
}

class Barrier {
public:
        explicit Barrier(unsigned n) : n_(n) {}

        void wait()
        {
                std::unique_lock<std::mutex> lock(mutex_);
                const unsigned round = round_;

                if (++n_here_ == n_) {
                        n_here_ = 0;
                        round_++;
                        changed_.notify_all();
                }
                changed_.wait(lock, [&] { return round != round_; });
        }

private:
        std::mutex mutex_;
        std::condition_variable changed_;
        const unsigned n_;
        unsigned n_here_ = 0, round_ = 0;
};

// A thread whose allocations fail still takes part in the barrier.
double run_mate(Barrier &barrier, cudaStream_t stream, std::string &reason)
{
        pairs state;
        std::vector<double> batches;

        auto guarded = [&](const auto &what) {
                try {
                        if (reason.empty())
                                what();
                } catch (const std::exception &error) {
                        reason = error.what();
                }
        };

        guarded([&] {
                check(cudaSetDevice(0));
                pairs_fill(&state, alloc, stream);
        });
        for (unsigned i = 0; i < n_thread_warm + n_thread_batches; i++) {
                barrier.wait();
                const auto start = Clock::now();
                guarded([&] { pairs_steps(&state, n_thread_steps, alloc, end, stream); });
                barrier.wait();
                if (i >= n_thread_warm)
                        batches.push_back(ns_since(start));
        }
        guarded([&] { pairs_empty(&state, end, stream); });
        return median(batches);
}

double order_threads(const std::string &argument)
{
        const unsigned n = static_cast<unsigned>(std::stoul(argument));
        std::vector<std::string> reasons(n);
        std::vector<std::thread> threads;
        Barrier barrier(n);
        double ns = 0;

        for (unsigned i = 0; i < n; i++)
                threads.emplace_back([&, i] {
                        const auto stream = c10::cuda::getStreamFromPool(false, 0).stream();
                        const double mine = run_mate(barrier, stream, reasons[i]);

                        if (i == 0)
                                ns = mine;
                });
        for (auto &thread : threads)
                thread.join();
        for (const auto &reason : reasons)
                if (!reason.empty())
                        throw std::runtime_error(reason);
        return 1e3 * n * n_thread_steps / ns;
}

double order_first(const std::string &argument)
{
        const size_t n_bytes = std::stoull(argument);
        const auto start = Clock::now();
        void *pointer = allocator::raw_alloc(n_bytes);
        const double ns = ns_since(start);

        allocator::raw_delete(pointer);
        return ns;
}

const std::map<std::string, std::function<double(const std::string &)>> orders = {
        {"hot", order_hot},
        {"random", order_random},
        {"threads", order_threads},
        {"first", order_first},
};

// PyTorch's messages have many lines; the first is enough.
void refuse(const char *word, const std::string &reason)
{
        std::printf("%s %s\n", word, reason.substr(0, reason.find('\n')).c_str());
        std::fflush(stdout);
}

void obey(const std::string &line)
{
        const size_t space = std::min(line.find(' '), line.size());
        const auto order = orders.find(line.substr(0, space));

        if (order == orders.end()) {
                refuse("no", "unknown order");
                return;
        }
        try {
                const double number = order->second(line.substr(std::min(space + 1, line.size())));

                std::printf("ok %.9g\n", number);
                std::fflush(stdout);
        } catch (const std::exception &error) {
                refuse("no", error.what());
        }
}

} // namespace

int main()
{
        std::string line;

        try {
                if (c10::cuda::device_count() == 0)
                        throw std::runtime_error("PyTorch finds no GPU");
                at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
        } catch (const std::exception &error) {
                refuse("none", error.what());
                return 1;
        }
        std::puts("ready");
        std::fflush(stdout);
        while (std::getline(std::cin, line))
                obey(line);
        return 0;
}
