#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/store_frame.h"
#include "lockstep/distributed/comm/store_server.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

namespace lockstep {
namespace {

using comm::StoreFrame;
using comm::StoreParse;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Kind = StoreFrame::Kind;

const char* const kToken = "a secret of this job";

TcpStoreOptions client_of(const TcpStore& server) {
  return {.port = server.port(), .token = kToken, .timeout = milliseconds(2000)};
}

TcpStoreOptions server_options() { return {.serve = true, .token = kToken}; }

template <class Fn>
std::string message_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Sends bytes to the server as a stranger and returns all that comes back until it closes the
/// connection.
std::string talk(uint16_t port, const std::string& bytes, milliseconds limit = milliseconds(2000)) {
  const auto deadline = steady_clock::now() + limit;
  const comm::Socket socket = comm::connect_to("127.0.0.1", port, deadline);
  std::string answer;
  try {
    comm::send_all(socket, bytes, deadline);
    for (;;) comm::receive_some(socket, answer, deadline);
  } catch (const CommError& e) {
    if (contains(e.what(), "deadline")) answer += "<still open>";
  }
  return answer;
}

TEST_CASE("store frames: round trip, every prefix, limits") {
  const StoreFrame frame{
      .kind = Kind::kAdd, .number = -5, .key = "some/key", .value = std::string("a\0b", 3)};
  const std::string bytes = comm::encode_store_frame(frame);
  for (size_t n = 0; n < bytes.size(); ++n) {
    CHECK(comm::parse_store_frame(bytes.substr(0, n), {}).status == StoreParse::Status::kNeedMore);
  }
  const StoreParse parse = comm::parse_store_frame(bytes + "more", {});
  REQUIRE(parse.status == StoreParse::Status::kFrame);
  CHECK(parse.frame == frame);
  CHECK(parse.consumed == bytes.size());

  const auto malformed = [](std::string b) {
    return comm::parse_store_frame(b, {.max_key = 8, .max_value = 3}).status ==
           StoreParse::Status::kMalformed;
  };
  CHECK_FALSE(malformed(bytes));
  CHECK(malformed(comm::encode_store_frame({.kind = Kind::kSet, .key = "123456789"})));
  CHECK(malformed(comm::encode_store_frame({.kind = Kind::kSet, .value = "1234"})));
  CHECK(malformed(std::string("\xff\xff\xff\xff", 4)));
  CHECK(malformed(std::string("\0\0\0\0", 4)));
  std::string unknown = bytes;
  unknown[4] = 99;
  CHECK(malformed(unknown));
  std::string lengths = bytes;
  lengths[13] = 7;
  CHECK(malformed(lengths));
}

TEST_CASE("store: set, get, wait, add, remove") {
  TcpStore server(server_options());
  TcpStore store(client_of(server));
  store.set("k", std::string("v\0w", 3));
  CHECK(server.get("k", milliseconds(0)) == std::string("v\0w", 3));
  store.set("k", "");
  CHECK(server.get("k", milliseconds(0)).empty());
  CHECK(store.add("count", 5) == 5);
  CHECK(server.add("count", -2) == 3);
  CHECK(store.get("count", milliseconds(0)) == "3");
  CHECK(store.remove("k"));
  CHECK_FALSE(store.remove("k"));
  const std::string big(size_t{1} << 20, 'x');
  store.set(std::string(1024, 'k'), big);
  CHECK(server.get(std::string(1024, 'k'), milliseconds(0)) == big);

  CHECK_THROWS_AS(store.set("big", big + 'x'), ArgumentError);
  CHECK_THROWS_AS(store.set(std::string(1025, 'k'), ""), ArgumentError);
  CHECK_THROWS_AS(store.set("", ""), ArgumentError);
  store.set("text", "no number");
  CHECK(contains(message_of([&] { store.add("text", 1); }), "the key holds no counter"));
  CHECK(store.add("after a refusal", 1) == 1);
}

TEST_CASE("store: get waits, and has a deadline") {
  TcpStore server(server_options());
  TcpStore store(client_of(server));
  const auto start = steady_clock::now();
  CHECK(message_of([&] { store.get("absent", milliseconds(50)); }) ==
        "Store::get: nobody has set 'absent' within 50 ms");
  CHECK(message_of([&] {
          store.set("b", "");
          store.wait({"a", "b", "c"}, milliseconds(50));
        }) == "Store::wait: nobody has set 'a', 'c' within 50 ms");
  CHECK(steady_clock::now() - start < milliseconds(1000));
  // The same client sets while it waits in another thread.
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    store.set("late", "now");
  });
  CHECK(store.get("late", milliseconds(5000)) == "now");
  late.join();
}

TEST_CASE("store: many clients at once count without a loss") {
  TcpStore server(server_options());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      TcpStore store(client_of(server));
      for (int i = 0; i < 100; ++i) store.add("count", 1);
      store.set("done/" + std::to_string(t), "");
      for (int other = 0; other < 8; ++other) {
        store.get("done/" + std::to_string(other), milliseconds(5000));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(server.get("count", milliseconds(0)) == "800");
}

TEST_CASE("store: without the token nothing is read or written") {
  TcpStore server(server_options());
  server.set("secret", "treasure");
  auto options = client_of(server);
  options.token = "a guess";
  CHECK(contains(message_of([&] { TcpStore store(options); }), "refused this job's token"));

  const std::string get = comm::encode_store_frame({.kind = Kind::kGet, .key = "secret"});
  const std::string set =
      comm::encode_store_frame({.kind = Kind::kSet, .key = "secret", .value = "spoiled"});
  const std::string hello = comm::encode_store_frame({.kind = Kind::kHello, .value = "a guess"});
  for (const std::string& bytes : {get, set, hello + get, hello + set}) {
    CHECK_FALSE(contains(talk(server.port(), bytes), "treasure"));
  }
  // The right token as the value of another request is no hello.
  talk(server.port(), comm::encode_store_frame({.kind = Kind::kSet, .value = kToken}) + set);
  CHECK(server.get("secret", milliseconds(0)) == "treasure");
}

TEST_CASE("store: garbage and oversized frames are refused, the server lives on") {
  TcpStore server(server_options());
  const std::string hello = comm::encode_store_frame({.kind = Kind::kHello, .value = kToken});
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 600 + 30, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    // A length that announces more than is sent is waited for; make half of them small.
    if (i % 2 == 0) bytes[1] = bytes[2] = bytes[3] = 0;
    talk(server.port(), (i % 4 < 2 ? hello : "") + bytes, milliseconds(20));
  }
  std::string huge = comm::encode_store_frame({.kind = Kind::kSet, .key = "k"});
  huge[3] = 0x7f;  // two gigabytes to come
  CHECK(contains(talk(server.port(), hello + huge), "the frame is too long"));
  CHECK(contains(talk(server.port(), hello + hello), "the key is empty"));
  CHECK(server.add("alive", 1) == 1);
}

TEST_CASE("store: silent strangers are dropped, and make room for ranks") {
  comm::StoreServer server(
      {.token = kToken, .max_connections = 4, .hello_timeout = milliseconds(100)});
  CHECK_FALSE(contains(talk(server.port(), "", milliseconds(3000)), "still open"));
  std::vector<comm::Socket> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.push_back(
        comm::connect_to("127.0.0.1", server.port(), steady_clock::now() + milliseconds(1000)));
  }
  TcpStore store({.port = server.port(), .token = kToken, .timeout = milliseconds(1000)});
  CHECK(store.add("x", 1) == 1);
}

TEST_CASE("store: bounded memory") {
  comm::StoreServer server({.token = kToken, .max_bytes = 1000});
  TcpStore store({.port = server.port(), .token = kToken, .timeout = milliseconds(1000)});
  store.set("a", std::string(900, 'x'));
  CHECK(contains(message_of([&] { store.set("b", std::string(100, 'x')); }), "the store is full"));
  store.set("a", std::string(950, 'x'));
  store.remove("a");
  store.set("b", std::string(900, 'x'));
}

TEST_CASE("store: addresses that fail") {
  TcpStore server(server_options());
  CHECK(contains(
      message_of([&] { TcpStore({.port = server.port(), .serve = true, .token = kToken}); }),
      "is in use (another job?); set MASTER_PORT"));
  uint16_t closed = 0;
  { closed = TcpStore(server_options()).port(); }
  const auto start = steady_clock::now();
  CHECK(contains(message_of([&] {
                   TcpStore({.port = closed, .token = kToken, .timeout = milliseconds(100)});
                 }),
                 "cannot reach rank 0's store at 127.0.0.1"));
  CHECK(steady_clock::now() - start < milliseconds(1000));
  CHECK(contains(message_of([&] {
                   TcpStore({.host = "no.such.host.invalid", .serve = true, .token = kToken});
                 }),
                 "cannot resolve the address 'no.such.host.invalid'"));
  // The server ends while a client waits.
  auto dying = std::make_unique<comm::StoreServer>(comm::StoreServerOptions{.token = kToken});
  TcpStore client({.port = dying->port(), .token = kToken, .answer_timeout = milliseconds(200)});
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    dying.reset();
  });
  CHECK(contains(message_of([&] { client.get("x", milliseconds(20'000)); }),
                 "rank 0 has probably ended"));
  killer.join();
  // Then it is gone, and not awaited as it is at the start (30 s).
  const auto later = steady_clock::now();
  CHECK(contains(message_of([&] { client.set("x", ""); }), "cannot reach rank 0's store"));
  CHECK(steady_clock::now() - later < milliseconds(5000));
}

TEST_CASE("store: the server stays until the clients have gone") {
  auto server = std::make_unique<TcpStore>(server_options());
  auto client = std::make_unique<TcpStore>(client_of(*server));
  std::atomic<bool> gone = false;
  std::thread ending([&] {
    server.reset();
    gone = true;
  });
  std::this_thread::sleep_for(milliseconds(50));
  CHECK_FALSE(gone);
  CHECK(client->add("still here", 1) == 1);
  client.reset();
  ending.join();
}

TEST_CASE("tokens are compared whole") {
  CHECK(comm::equal_in_constant_time("abc", "abc"));
  CHECK_FALSE(comm::equal_in_constant_time("abcabc", "abc"));
  CHECK_FALSE(comm::equal_in_constant_time("", "abc"));
  CHECK_FALSE(comm::equal_in_constant_time("", ""));
}

}  // namespace
}  // namespace lockstep
