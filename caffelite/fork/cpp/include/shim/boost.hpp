// The part of Boost that Caffe's sources use, by the standard library.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#define BOOST_VERSION 106000
#define BOOST_STATIC_ASSERT(condition) static_assert(condition, #condition)
#define BOOST_FOREACH(item, items) for (item : items)

namespace boost {

using std::shared_ptr;
using std::weak_ptr;
using std::make_shared;
using std::enable_shared_from_this;
using std::dynamic_pointer_cast;
using std::static_pointer_cast;
using std::const_pointer_cast;
using std::function;
using std::bind;
using std::ref;
using std::cref;
using std::array;
using std::unordered_map;
using std::unordered_set;
using std::tuple;
using std::make_tuple;
using std::tie;
using std::get;
using std::recursive_mutex;
using std::unique_lock;
using std::lock_guard;
using std::int64_t;
using std::uint64_t;
using std::int32_t;
using std::uint32_t;

class mutex : public std::mutex {
 public:
  typedef std::unique_lock<std::mutex> scoped_lock;
};
class condition_variable : public std::condition_variable {};

template <typename T>
class scoped_ptr {
 public:
  explicit scoped_ptr(T* pointer = nullptr) : pointer_(pointer) {}
  void reset(T* pointer = nullptr) { pointer_.reset(pointer); }
  T& operator*() const { return *pointer_; }
  T* operator->() const { return pointer_.get(); }
  T* get() const { return pointer_.get(); }
  explicit operator bool() const { return bool(pointer_); }
  void swap(scoped_ptr& other) { pointer_.swap(other.pointer_); }

 private:
  std::unique_ptr<T> pointer_;
};

template <typename T>
class scoped_array {
 public:
  explicit scoped_array(T* pointer = nullptr) : pointer_(pointer) {}
  void reset(T* pointer = nullptr) { pointer_.reset(pointer); }
  T& operator[](std::ptrdiff_t i) const { return pointer_[i]; }
  T* get() const { return pointer_.get(); }

 private:
  std::unique_ptr<T[]> pointer_;
};
template <typename T>
using shared_array = std::shared_ptr<T[]>;

class noncopyable {
 protected:
  noncopyable() {}

 private:
  noncopyable(const noncopyable&) = delete;
  noncopyable& operator=(const noncopyable&) = delete;
};

// One thread calls: a pointer per thread is a pointer.
template <typename T>
class thread_specific_ptr {
 public:
  T* get() const { return pointer_.get(); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }
  void reset(T* pointer = nullptr) { pointer_.reset(pointer); }

 private:
  std::unique_ptr<T> pointer_;
};

struct thread_interrupted {};
class thread {
 public:
  thread() {}
  template <typename F, typename... A>
  explicit thread(F&&, A&&...) {
    throw std::runtime_error("a layer starts a thread, which is not possible here");
  }
  void join() {}
  void interrupt() {}
  void detach() {}
  bool joinable() const { return false; }
  bool interruption_requested() const { return false; }
  static unsigned hardware_concurrency() { return 1; }
};
namespace this_thread {
inline void interruption_point() {}
inline bool interruption_requested() { return false; }
inline std::thread::id get_id() { return std::this_thread::get_id(); }
}  // namespace this_thread
struct barrier {
  explicit barrier(unsigned) {}
  void wait() {}
};
struct shared_mutex : std::mutex {};

namespace math {
template <typename T>
T nextafter(T from, T to) { return std::nextafter(from, to); }
template <typename T>
T float_next(T from) { return std::nextafter(from, std::numeric_limits<T>::max()); }
using std::tgamma;
using std::lgamma;
using std::erf;
template <typename T>
bool isnan(T x) { return std::isnan(x); }
template <typename T>
bool isinf(T x) { return std::isinf(x); }
template <typename T>
T sign(T x) { return T((x > 0) - (x < 0)); }
namespace constants {
template <typename T>
constexpr T pi() { return T(3.141592653589793238462643383279502884L); }
}  // namespace constants
}  // namespace math
using math::isnan;
using math::isinf;

typedef std::mt19937 mt19937;
typedef std::mt19937_64 mt19937_64;
typedef std::mt19937 rand48;
template <typename T = int>
using uniform_int = std::uniform_int_distribution<T>;
template <typename T = double>
using uniform_real = std::uniform_real_distribution<T>;
template <typename T = double>
using normal_distribution = std::normal_distribution<T>;
template <typename T = double>
using gamma_distribution = std::gamma_distribution<T>;
template <typename T = double>
using exponential_distribution = std::exponential_distribution<T>;
template <typename T = int>
using poisson_distribution = std::poisson_distribution<T>;
template <typename T = double>
struct uniform_01 : std::uniform_real_distribution<T> {};
template <typename T = double>
struct bernoulli_distribution : std::bernoulli_distribution {
  explicit bernoulli_distribution(T p = T(0.5)) : std::bernoulli_distribution(double(p)) {}
};
namespace random {
using boost::mt19937;
using boost::uniform_01;
using boost::normal_distribution;
using boost::bernoulli_distribution;
template <typename T = int>
using uniform_int_distribution = std::uniform_int_distribution<T>;
template <typename T = double>
using uniform_real_distribution = std::uniform_real_distribution<T>;
template <typename T = int, typename W = double>
using discrete_distribution = std::discrete_distribution<T>;
}  // namespace random

// Engine: a generator, or a pointer or a reference to one.
template <typename Engine, typename Distribution>
class variate_generator {
 public:
  typedef typename Distribution::result_type result_type;
  variate_generator(Engine engine, Distribution distribution) : engine_(engine), distribution_(distribution) {}
  result_type operator()() { return distribution_(generator(engine_)); }

 private:
  template <typename E>
  static E& generator(E* engine) { return *engine; }
  template <typename E>
  static E& generator(E& engine) { return engine; }
  Engine engine_;
  Distribution distribution_;
};

using std::regex;
using std::regex_replace;

namespace property_tree {
class ptree {  // keys are no paths
 public:
  typedef std::pair<std::string, ptree> value_type;
  template <typename T>
  ptree& put(const std::string& key, const T& value) {
    std::ostringstream text;
    text << value;
    ptree& child = children_.emplace_back(key, ptree()).second;
    child.text_ = text.str();
    return child;
  }
  ptree& add_child(const std::string& key, const ptree& child) { return children_.emplace_back(key, child).second; }
  ptree& get_child(const std::string& key) {
    if (key.empty()) return *this;
    for (auto child = children_.rbegin(); child != children_.rend(); ++child)
      if (child->first == key) return child->second;
    throw std::runtime_error("a property tree has no " + key);
  }
  template <typename T>
  T get(const std::string& key) { return get_child(key).get_value<T>(); }
  template <typename T>
  T get_value() const {
    T value = T();
    std::istringstream(text_) >> value;
    return value;
  }
  void push_back(const value_type& child) { children_.push_back(child); }
  void clear() { children_.clear(); }
  bool empty() const { return children_.empty(); }
  size_t size() const { return children_.size(); }
  auto begin() { return children_.begin(); }
  auto end() { return children_.end(); }

 private:
  std::string text_;
  std::vector<value_type> children_;
};
template <typename... A>
void write_json(A&&...) { throw std::runtime_error("Boost's write_json is not available to a layer of a fork"); }
}  // namespace property_tree

namespace filesystem {
using namespace std::filesystem;
inline path unique_path(const path& model) { return model; }
}  // namespace filesystem

namespace posix_time {
struct time_duration {
  std::chrono::microseconds value;
  long total_microseconds() const { return value.count(); }
  long total_milliseconds() const { return value.count() / 1000; }
  long total_seconds() const { return value.count() / 1000000; }
};
struct ptime {
  std::chrono::steady_clock::time_point at;
  time_duration operator-(const ptime& other) const {
    return {std::chrono::duration_cast<std::chrono::microseconds>(at - other.at)};
  }
};
struct microsec_clock {
  static ptime local_time() { return {std::chrono::steady_clock::now()}; }
  static ptime universal_time() { return local_time(); }
};
}  // namespace posix_time

template <typename To, typename From>
To lexical_cast(const From& value) {
  std::stringstream text;
  To result;
  if (!(text << value) || !(text >> result)) throw std::runtime_error("bad lexical cast");
  return result;
}
template <typename Text>
std::string is_any_of(const Text& characters) { return characters; }
template <typename Container>
void split(Container& words, const std::string& text, const std::string& separators) {
  words.clear();
  for (size_t from = 0;;) {
    const size_t to = text.find_first_of(separators, from);
    words.push_back(text.substr(from, to - from));
    if (to == std::string::npos) return;
    from = to + 1;
  }
}
inline void trim(std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  text = first == std::string::npos ? "" : text.substr(first, last - first + 1);
}
inline void to_lower(std::string& text) { std::transform(text.begin(), text.end(), text.begin(), ::tolower); }
inline void to_upper(std::string& text) { std::transform(text.begin(), text.end(), text.begin(), ::toupper); }
inline bool starts_with(const std::string& text, const std::string& start) { return !text.compare(0, start.size(), start); }
inline bool iequals(std::string a, std::string b) { return to_lower(a), to_lower(b), a == b; }
namespace algorithm {
using boost::split;
using boost::trim;
using boost::to_lower;
using boost::is_any_of;
using boost::starts_with;
}  // namespace algorithm
}  // namespace boost

using std::placeholders::_1;
using std::placeholders::_2;
