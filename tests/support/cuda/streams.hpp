// Streams, events and graphs: operations, and what each must come after.
//
// Nothing runs when it is called for. When the host waits for something, operations run whose predecessors have run, in
// an order that a seed draws (CUDA_STANDIN_SEED), until what it waits for is done. So an operation that lacks an event
// runs before what it should have waited for, with some seed.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace emulated {

struct Operation {
  std::function<void()> work;
  std::vector<std::shared_ptr<Operation>> after;
  bool done = false;
};
using Handle = std::shared_ptr<Operation>;

struct Graph {
  struct Node {
    std::function<void()> work;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
};
struct Capture {
  Graph graph;
  bool ended = false;
};

struct Stream {
  bool waits_for_default = true;  ///< false: made with cudaStreamNonBlocking
  Handle last;
  std::shared_ptr<Capture> capture;  ///< null: nothing is recorded
  bool began_here = false;
  std::vector<std::size_t> last_nodes;
};
struct Event {
  Handle last;
  bool recorded = false;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> nodes;
};

Stream* default_stream();
Stream* make_stream(bool waits_for_default);
void destroy(Stream* stream);

/// Adds to a stream, or to the graph that it records.
void enqueue(Stream& stream, std::function<void()> work);
void record(Event& event, Stream& stream);
void wait(Stream& stream, const Event& event);

bool is_done(const Handle& operation);
void run_until(const Handle& operation);
void run_some();  ///< one operation, if one can run
void run_all();

bool begin_capture(Stream& stream);
/// Null where the stream records nothing, or another began.
std::unique_ptr<Graph> end_capture(Stream& stream);
void launch(const Graph& graph, Stream& stream);

}  // namespace emulated
