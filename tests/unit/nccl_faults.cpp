// transports: nccl
// timeout: 300
// guard: no
// The transport over NCCL from start to end without MPI, and what it says when something fails. The tests start this
// executable again as several ranks, each with one of the skipped test cases.
#include <doctest/doctest.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "halogen/comm/device_mesh.hpp"
#include "halogen/comm/environment.hpp"
#include "support/processes.hpp"
#include "support/refusal.hpp"

namespace hg = halogen;
using support::count, support::Ended;

namespace {

/// Ranks of the test case "child <name>", with variables for all and for each.
std::vector<Ended> ranks_of(int size, const std::string& name, const std::string& variables,
                            const std::vector<std::string>& of_each = {}) {
  std::vector<Ended> ended(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      const auto i = static_cast<std::size_t>(r);
      ended[i] =
          support::shell("env OMP_NUM_THREADS=1 RANK=" + std::to_string(r) + " WORLD_SIZE=" + std::to_string(size) +
                         " " + variables + " " + (i < of_each.size() ? of_each[i] : "") + " " +
                         support::this_executable() + " --no-skip '--test-case=child " + name + "'");
    });
  for (std::thread& thread : threads) thread.join();
  return ended;
}

int port() {
  static int next = 20000 + getpid() % 12000;  // below those that systems give out
  return ++next;
}
std::string at_port() { return "MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(port()); }
/// Null where the system has none of that family.
std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> look_up(int family, const char* host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host, port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, freeaddrinfo};
}
std::string at_ipv6() {
  const std::string port_text = std::to_string(port());
  const auto found = look_up(AF_INET6, "::1", port_text);
  if (!found) return at_port();
  const int door = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  const bool works = door >= 0 && bind(door, found->ai_addr, found->ai_addrlen) == 0;  // not all systems have it
  if (door >= 0) close(door);
  return works ? "HALOGEN_RENDEZVOUS=tcp://[::1]:" + port_text : at_port();
}
std::string at_file() {
  static int runs = 0;
  return "HALOGEN_RENDEZVOUS=file:/tmp/halogen-meet-" + std::to_string(getpid()) + "-" + std::to_string(runs++);
}

/// Leaves through std::terminate, as an exception out of main does; doctest would catch it.
template <class F>
void uncaught(F f) noexcept {
  f();
}

}  // namespace

TEST_CASE("child waits for a rank that stays away" * doctest::skip()) {
  uncaught([] {
    hg::Environment env;
    const auto mesh = hg::device_mesh<hg::Mesh<"height", "width">>(env.world(), {1, -1});
    const hg::Communicator& row = mesh.communicator_of<"width">();
    const Kokkos::View<double*> there("there", 4), here("here", 4);
    const hg::Transfer sends[] = {{1 - row.rank(), there.data(), 32}}, receives[] = {{1 - row.rank(), here.data(), 32}};
    hg::Exchange exchange = row.prepare(receives, sends, "halo of u");
    exchange.start(), exchange.wait();
    Kokkos::fence();
    std::cout << "met" << std::endl;
    if (row.rank() == 0) exchange.start();
    std::this_thread::sleep_for(std::chrono::seconds(10));
    std::cout << "unharmed" << std::endl;
    std::quick_exit(0);
  });
}

TEST_CASE("a rank that stays away is waited for as long as was said, by its name") {
  for (const std::string limit : {"HALOGEN_NCCL_TIMEOUT", "HALOGEN_TIMEOUT"}) {  // the latter holds for MPI as well
    const std::vector<Ended> ended =
        ranks_of(2, "waits for a rank that stays away", at_port() + " HALOGEN_WAIT_WARNING=0.5 " + limit + "=2");
    CAPTURE(ended[0].output);
    CAPTURE(ended[1].output);
    CHECK(count(ended[0].output, "met") == 1);
    CHECK(count(ended[1].output, "met") == 1);
    const std::string waits = "halo of u on \"mesh width\", peer 1";
    CHECK(count(ended[0].output, "halogen: rank 0 has waited 0.5 s for " + waits + ": a peer computes long") == 1);
    CHECK(count(ended[0].output, "error on rank 0: " + waits + ": no answer within 2 s (" + limit + ")") == 1);
    CHECK(ended[0].status == 1);
  }
}

#ifndef KOKKOS_ENABLE_CUDA  // what follows are faults of the stand-in

namespace {

/// Before main makes its Environment.
const bool shares_a_gpu = [] {
  if (std::getenv("SHARED_GPU")) hg::detail::device_identity = [] { return std::string("GPU-1"); };
  return true;
}();

}  // namespace

TEST_CASE("child adds" * doctest::skip()) {
  uncaught([] {
    hg::Environment env;
    int sum = env.world().rank();
    env.world().all_reduce(&sum, 1);
    if (env.is_root()) std::cout << env.describe() << "\nsum " << sum << std::endl;
  });
}
TEST_CASE("child opens the library" * doctest::skip()) {
  const hg::detail::NcclLibrary& nccl = hg::detail::NcclLibrary::get();
  const bool puts = nccl.version() >= hg::detail::nccl_of_windows;
  std::cout << "version " << nccl.version() << (nccl.has_windows() == puts ? ", complete" : ", lacks") << std::endl;
}
TEST_CASE("child exchanges" * doctest::skip()) {
  uncaught([] {
    hg::Environment env;
    const auto mesh = hg::device_mesh<hg::Mesh<"height", "width">>(env.world(), {1, -1});
    const hg::Communicator& row = mesh.communicator_of<"width">();
    const int left = (row.rank() + row.size() - 1) % row.size(), right = (row.rank() + 1) % row.size();
    const Kokkos::View<double*> there("there", 4), here("here", 4);
    const std::shared_ptr<void> out = row.message_memory(32), in = row.message_memory(32);
    const hg::Transfer sends[] = {{right, out ? out.get() : there.data(), 32}},
                       receives[] = {{left, in ? in.get() : here.data(), 32}};
    hg::Exchange exchange = row.prepare(receives, sends, "halo of u");
    exchange.start();
    setenv("NCCL_STANDIN_FAULT", std::getenv("FAULT"), 1);
    if (std::getenv("FAULT_IN_SUM")) row.all_reduce(there.data(), 4);
    exchange.start();
    std::cout << "started" << std::endl;
    std::this_thread::sleep_for(std::chrono::seconds(std::getenv("FAULT_UNHEARD") ? 60 : 1));
    row.check_health();
    std::cout << "unharmed" << std::endl;
  });
}

TEST_CASE("several processes meet at a port or in a file, and need no MPI") {
  for (const int size : {2, 3, 4})
    for (const std::string& where :
         {at_port(), at_file(), at_ipv6(), "HALOGEN_RENDEZVOUS=tcp://localhost:" + std::to_string(port())}) {
      const std::vector<Ended> ended = ranks_of(size, "adds", where);
      for (const Ended& one : ended) CHECK(one.status == 0);
      CAPTURE(ended[0].output);
      CHECK(count(ended[0].output, "halogen: transport=nccl ranks=" + std::to_string(size) + " (" +
                                       std::to_string(size) + " on this node)") == 1);
      CHECK(count(ended[0].output, "sum " + std::to_string(size * (size - 1) / 2)) == 1);
    }
}

TEST_CASE("a process that comes before rank 0 does not meet itself, nor keeps the port from it") {
  int first = 0, last = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  if (first == 0) return;
  const std::string there = std::to_string(first + (last - first) / 4 * 2);  // of those that the system gives out
  const auto at = look_up(AF_INET, "127.0.0.1", there);
  REQUIRE(at != nullptr);
  bool met_itself = false;
  for (int i = 0; i < 4 * (last - first) && !met_itself; ++i) {
    const hg::detail::Socket early(*at);
    const bool connected = early.connect_to(*at);
    REQUIRE_FALSE(connected);
    met_itself = early.meets_itself();
    if (!met_itself) continue;
    hg::detail::Launched one;
    one.size = 1;
    CHECK_NOTHROW(hg::detail::TcpRendezvous(one, "127.0.0.1", there, std::chrono::seconds(1)));
  }
  CHECK(met_itself);
}

TEST_CASE("one process needs neither address nor NCCL") {
  const Ended alone = ranks_of(1, "adds", "HALOGEN_NCCL_LIBRARY=/nowhere.so").front();
  CHECK(alone.status == 0);
  CHECK(count(alone.output, "transport=self ranks=1") == 1);
}

TEST_CASE("under torchrun, whose store holds MASTER_PORT, and under srun") {
  const int taken = port();
  const std::string torchrun =
      "TORCHELASTIC_USE_AGENT_STORE=True MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(taken);
  hg::detail::Launched one;
  one.size = 1;
  const hg::detail::TcpRendezvous store(one, "127.0.0.1", std::to_string(taken), std::chrono::seconds(1));
  CHECK(count(ranks_of(2, "adds", torchrun)[0].output, "sum 1") == 1);
  port();
  const std::string srun = "SLURM_NTASKS=2 SLURM_JOB_ID=" + std::to_string(getpid()) +
                           " SLURM_STEP_ID=0 'SLURM_STEP_NODELIST=localhost,other[3-5]'";
  const std::vector<Ended> ended = ranks_of(2, "adds", "", {srun + " SLURM_PROCID=0", srun + " SLURM_PROCID=1"});
  CAPTURE(ended[0].output);
  CHECK(count(ended[0].output, "sum 1") == 1);
  CHECK(hg::detail::first_host("gpu[03-05,09],cpu1") == "gpu03");
  CHECK(hg::detail::first_host("node7,node9") == "node7");
  CHECK(hg::detail::first_host("alone") == "alone");
}

TEST_CASE("files that an earlier run left behind are no meeting") {
  const std::string where = at_file(), path = where.substr(where.find("file:") + 5);
  std::ofstream(path + ".here.1") << "12-34";
  std::ofstream(path + ".answer.1") << "56-78 12-34";
  std::ofstream(path + ".all") << "56-78 12-34";
  const std::vector<Ended> ended = ranks_of(2, "adds", where);
  CHECK(count(ended[0].output, "sum 1") == 1);
  CHECK(ended[1].status == 0);
  CHECK_FALSE(std::ifstream(path + ".all").good());
}

TEST_CASE("a rank that does not come is named, as is an address that is missing or taken") {
  const Ended first = ranks_of(1, "adds", "WORLD_SIZE=3 HALOGEN_RENDEZVOUS_TIMEOUT=0.5 " + at_port()).front();
  CHECK(first.status == 1);
  CHECK(count(first.output, "waited 0.5 s for rank 1, 2: are all processes started, with one address?") == 1);
  const Ended last = ranks_of(1, "adds", "RANK=2 WORLD_SIZE=3 HALOGEN_RENDEZVOUS_TIMEOUT=0.5 " + at_file()).front();
  CHECK(count(last.output, "error: rank 2 of 3 at file:/tmp/halogen-meet-") == 1);
  CHECK(count(last.output, "waited 0.5 s for rank 0: ") == 1);
  const Ended nowhere = ranks_of(1, "adds", "WORLD_SIZE=2").front();
  CHECK(count(nowhere.output, "error: 2 processes were started, but nothing says where they meet: set MASTER_ADDR") ==
        1);
  const std::vector<Ended> twice = ranks_of(3, "adds", "HALOGEN_RENDEZVOUS_TIMEOUT=2 " + at_port(), {"", "", "RANK=1"});
  CAPTURE(twice[0].output);
  CHECK(count(twice[0].output, "was met by a second rank 1, or one of 3: give each run an address of its own") == 1);
  const Ended unknown = ranks_of(1, "adds", "HALOGEN_TRANSPORT=gloo").front();
  CHECK(count(unknown.output, "error: HALOGEN_TRANSPORT=gloo is none of self, mpi and nccl") == 1);
  const std::vector<Ended> own = ranks_of(2, "adds", at_port() + " HALOGEN_RENDEZVOUS_TIMEOUT=1",
                                          {"", "HALOGEN_RENDEZVOUS_TIMEOUT=abc"});  // one rank's own mistake
  CHECK(count(own[1].output, "error on rank 1: HALOGEN_RENDEZVOUS_TIMEOUT") == 1);
  const Ended nonsense = ranks_of(1, "adds", "WORLD_SIZE=2 HALOGEN_RENDEZVOUS=/tmp/x").front();
  CHECK(count(nonsense.output, "HALOGEN_RENDEZVOUS=/tmp/x is neither file:/path nor tcp://host:port") == 1);
}

TEST_CASE("an address that is taken, unknown or none, in sentences of ours") {
  const std::string taken = std::to_string(port());
  hg::detail::Launched one;
  one.size = 1;
  const auto refused = [&](const hg::detail::Launched& who, const std::string& host, const std::string& at) {
    return support::refusal<hg::Error>(
        [&] { hg::detail::TcpRendezvous(who, host, at, std::chrono::milliseconds(100)); });
  };
  const auto at = look_up(AF_INET, "127.0.0.1", taken);
  REQUIRE(at != nullptr);
  const hg::detail::Socket door(*at);
  REQUIRE(bind(door.descriptor(), at->ai_addr, at->ai_addrlen) == 0);
  REQUIRE(listen(door.descriptor(), 1) == 0);
  CHECK(refused(one, "127.0.0.1", taken) ==
        "rank 0 of 1 at tcp://127.0.0.1:" + taken + " cannot listen: another program has port " + taken +
            ": choose another port (MASTER_PORT, or HALOGEN_RENDEZVOUS=tcp://host:port)");
  CHECK(refused(one, "127.0.0.1", "no-port") ==
        "rank 0 of 1 at tcp://127.0.0.1:no-port cannot listen: 'no-port' is no port: give a number from 1 to 65535 "
        "(HALOGEN_RENDEZVOUS=tcp://host:port)");
  hg::detail::Launched second;
  second.rank = 1, second.size = 2;
  CHECK(refused(second, "no host", taken) ==
        "rank 1 of 2 at tcp://no host:" + taken +
            " waited 0.1 s for rank 0, whose address this host does not know: are all processes started, with one "
            "address? (HALOGEN_RENDEZVOUS_TIMEOUT)");
}

TEST_CASE("whatever hinders a socket has a sentence that ends with what to do") {
  using hg::detail::words_of_door, hg::detail::words_of_look_up;
  for (const int error : {EADDRINUSE, EACCES, EPERM, EADDRNOTAVAIL, EAFNOSUPPORT, EPROTONOSUPPORT, EMFILE, ENFILE,
                          ENOMEM, ENOBUFS, EPROTO}) {
    const std::string words = words_of_door(error, "5");
    CAPTURE(words);
    CHECK(words.find(": ") != std::string::npos);
    CHECK((words.find(std::strerror(error)) != std::string::npos) == (error == EPROTO));
  }
  errno = EADDRINUSE;
  for (const int code : {EAI_SERVICE, EAI_NONAME, EAI_SYSTEM, EAI_MEMORY, EAI_FAIL}) {
    const std::string words = words_of_look_up(code, "5");
    CAPTURE(words);
    CHECK(words.find(": ") != std::string::npos);
    CHECK((words.find(gai_strerror(code)) != std::string::npos) == (code == EAI_FAIL));
  }
  CHECK(words_of_look_up(EAI_SYSTEM, "5") == words_of_door(EADDRINUSE, "5"));
}

TEST_CASE("a library that is missing, too old or another is one sentence with its fix") {
  const auto said_once = [](const std::vector<Ended>& ended, const std::string& sentence) {
    int found = 0;
    for (const Ended& one : ended) {
      CHECK(one.status == 1);
      found += count(one.output, sentence);
    }
    CAPTURE(ended[0].output);
    CHECK(found == 1);
  };
  said_once(ranks_of(2, "adds", at_port() + " HALOGEN_NCCL_LIBRARY=/nowhere.so"),
            "error: rank 0: NCCL cannot be loaded (/nowhere.so: cannot open shared object file: No such file or "
            "directory): install it, name it with HALOGEN_NCCL_LIBRARY=");
  said_once(ranks_of(2, "adds", at_port(), {"", "HALOGEN_NCCL_LIBRARY=/nowhere.so"}), "error: rank 1: NCCL cannot be");
  said_once(ranks_of(2, "adds", at_port() + " NCCL_STANDIN_VERSION=21703"),
            "error: rank 0: this is NCCL 2.17.3, but 2.18.1 or newer is needed");
  said_once(ranks_of(2, "adds", at_port(), {"", "NCCL_STANDIN_VERSION=23002"}),
            "error: rank 1 has NCCL 2.30.2, rank 0 has 2.28.9: give all ranks one library");
}

const std::string windows = " HALOGEN_NCCL_WINDOWS=1 NCCL_STANDIN_VERSION=22907 ";

TEST_CASE("windows are named in the start-up line, or why there are none is said once by all") {
  const auto output = [](int size, const std::string& variables, const std::vector<std::string>& of_each = {}) {
    std::string all;
    for (const Ended& one : ranks_of(size, "adds", at_port() + " " + variables, of_each)) all += one.output;
    return all;
  };
  const auto said_once = [&](const std::string& text, const std::string& sentence) {
    CAPTURE(text);
    CHECK(count(text, sentence) == 1);
    CHECK(count(text, "transport=") == 0);
  };
  CHECK(count(output(3, windows), " nccl_windows=256MiB") == 1);
  CHECK(count(output(2, windows + "HALOGEN_NCCL_WINDOW_MIB=3"), " nccl_windows=3MiB") == 1);
  for (const std::string without : {"", " HALOGEN_NCCL_WINDOWS=0"}) CHECK(count(output(2, without), "windows") == 0);
  const std::string automatic = windows + "HALOGEN_NCCL_WINDOWS=auto ";
  CHECK(count(output(3, automatic), " nccl_windows=256MiB") == 1);
  for (const std::string lack :
       {"NCCL_STANDIN_VERSION=22809", "NCCL_STANDIN_NO_WINDOWS=1", "NCCL_STANDIN_NO_MEMORY=1"}) {
    const std::string text = output(2, automatic + lack);
    CAPTURE(text);
    CHECK(count(text, "sum 1") == 1);
    CHECK(count(text, "windows") == 0);
  }
  said_once(output(2, windows, {"", "HALOGEN_NCCL_WINDOWS=auto"}),
            "error: rank 1 asks for windows of 256 MiB where they can be had, rank 0 for windows of 256 MiB: give all");
  said_once(output(2, windows + "NCCL_STANDIN_VERSION=22809"),
            "error: HALOGEN_NCCL_WINDOWS=1 needs NCCL 2.29.0 or newer, but this is NCCL 2.28.9: name another with "
            "HALOGEN_NCCL_LIBRARY, or set HALOGEN_NCCL_WINDOWS=0");
  said_once(output(3, windows, {"", "", "HALOGEN_NCCL_WINDOWS=0"}),
            "error: rank 2 asks for no windows, rank 0 for windows of 256 MiB: give all ranks one "
            "HALOGEN_NCCL_WINDOWS and one HALOGEN_NCCL_WINDOW_MIB");
  said_once(output(2, windows, {"", "HALOGEN_NCCL_WINDOW_MIB=64"}),
            "error: rank 1 asks for windows of 64 MiB, rank 0 for windows of 256 MiB");
  said_once(output(2, windows + "NCCL_STANDIN_NO_WINDOWS=1"),
            "error: HALOGEN_NCCL_WINDOWS=1, but NCCL finds no way for these GPUs to write into each other's memory");
  said_once(output(2, windows + "NCCL_STANDIN_NO_SIGNALS=1"),
            "error: windows for messages (HALOGEN_NCCL_WINDOWS) on \"world\": NCCL says invalid argument");
  said_once(output(2, windows + "NCCL_STANDIN_NO_MEMORY=1"),
            "error: HALOGEN_NCCL_WINDOWS=1 needs 256 MiB of device memory, and NCCL says unhandled cuda error: set "
            "HALOGEN_NCCL_WINDOW_MIB to less");
  said_once(output(2, windows, {"", "HALOGEN_NCCL_WINDOWS=yes"}),
            "error: HALOGEN_NCCL_WINDOWS=yes is none of 0, 1 and auto");
}

TEST_CASE("NVIDIA's own library, where there is one, has every function that is called") {
  const char* own = std::getenv("HALOGEN_TEST_NCCL");
  if (own == nullptr || *own == '\0') return;
  const Ended opened = ranks_of(1, "opens the library", "HALOGEN_NCCL_LIBRARY=" + std::string(own)).front();
  CAPTURE(opened.output);
  CHECK(opened.status == 0);
  CHECK(count(opened.output, "version 2") == 1);
  CHECK(count(opened.output, ", complete") == 1);
}

TEST_CASE("ranks share a GPU where NCCL can and was told so") {
  const std::string both = " NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_STANDIN_VERSION=";
  const auto output = [&](const std::string& variables) {
    return ranks_of(2, "adds", "SHARED_GPU=1 " + at_port() + variables)[0].output;
  };
  const std::string refused = "error: ranks 0 and 1 share the GPU GPU-1, but this is NCCL ";
  CHECK(count(output(" NCCL_STANDIN_VERSION=23002"), refused + "2.30.2: give each rank a GPU of its own, or set") == 1);
  CHECK(count(output(both + "22809"), refused + "2.28.9") == 1);
  CHECK(count(output(both + "23002"), "transport=nccl ranks=2") == 1);
}

TEST_CASE("a rank that hangs, an asynchronous error and a refusal are named, and the run ends") {
  const auto run = [](const std::string& variables, const std::string& of_rank_1 = "") {
    return ranks_of(3, "exchanges", at_port() + " " + variables, {"", of_rank_1});
  };
  const std::string waits = "halo of u on \"mesh width\", peers 0, 1: no answer within 1 s (HALOGEN_NCCL_TIMEOUT)";
  for (const std::string& put : {std::string(), windows}) {
    const std::vector<Ended> ended = run(put + "HALOGEN_NCCL_TIMEOUT=1 FAULT=stall:1");
    for (const Ended& one : ended) {
      CAPTURE(one.output);
      CHECK(one.status == 1);
      CHECK(one.seconds < 9);  // the watch itself waits 10 s before it ends a process that cannot be reached
      CHECK(count(one.output, "started") == 0);
      CHECK(count(one.output, ": no answer within 1 s") == 1);
      CHECK(count(one.output, "unharmed") == 0);
    }
    CHECK(count(ended[2].output, "error on rank 2: " + waits) == 1);
  }
  {
    const std::vector<Ended> ended = run("HALOGEN_NCCL_TIMEOUT=3 FAULT=error:1 FAULT_IN_SUM=1");
    CAPTURE(ended[1].output);
    CHECK(count(ended[1].output, "error on rank 1: all_reduce on \"mesh width\": NCCL says unhandled system error") ==
          1);
    CHECK(count(ended[0].output, "error on rank 0: all_reduce on \"mesh width\": ") == 1);
    CHECK(ended[0].status == 1);
  }
  for (const std::string& put : {std::string(), windows}) {
    const std::vector<Ended> ended = run(put + "HALOGEN_NCCL_TIMEOUT=3 FAULT=refuse:1");
    CAPTURE(ended[1].output);
    CHECK(count(ended[1].output,
                "error on rank 1: halo of u on \"mesh width\", peers 0, 2: NCCL says internal error") == 1);
    CHECK(ended[0].status == 1);
    CHECK(ended[2].status == 1);
  }
  for (const std::string unheard : {"", "FAULT_UNHEARD=1"}) {  // found between two calls; by a thread that makes none
    const std::vector<Ended> ended = run("HALOGEN_NCCL_TIMEOUT=30 FAULT=late:1", unheard);
    CAPTURE(ended[1].output);
    CHECK(count(ended[1].output, "error on rank 1: communicator \"mesh width\": NCCL says remote process exited") == 1);
    CHECK(ended[1].status == 1);
    CHECK(ended[1].seconds < 30);
  }
  const Ended odd = ranks_of(2, "adds", at_port() + " HALOGEN_NCCL_TIMEOUT=soon").front();
  CHECK(count(odd.output, "HALOGEN_NCCL_TIMEOUT=soon is no number from") == 1);
}

#endif
