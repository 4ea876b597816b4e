// The part of protobuf's interface that Caffe's sources use: messages with the binary format, repeated fields, and
// the names of streams and of the text format, which throw.
#pragma once
#include <cstdint>
#include <cstring>
#include <iostream>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define GOOGLE_PROTOBUF_VERSION 2006001

namespace google {
namespace protobuf {

typedef std::int32_t int32;
typedef std::int64_t int64;
typedef std::uint32_t uint32;
typedef std::uint64_t uint64;
typedef std::uint8_t uint8;
using std::string;

enum Encoding { VARINT, ZIGZAG, FIXED };
enum WireType { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

// Reads the binary format; throws std::runtime_error where the bytes end too early.
class Reader {
 public:
  Reader(const char* begin, size_t size) : at_(begin), end_(begin + size) {}
  bool done() const { return at_ == end_; }
  uint64 varint() {
    uint64 value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const unsigned char byte = *take(1);
      value |= uint64(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    throw std::runtime_error("a varint is too long");
  }
  const char* take(size_t size) {
    if (size > size_t(end_ - at_)) throw std::runtime_error("a message ends too early");
    const char* begin = at_;
    at_ += size;
    return begin;
  }
  Reader bytes() {
    const size_t size = varint();
    return Reader(take(size), size);
  }
  string rest() {
    string text(at_, end_ - at_);
    at_ = end_;
    return text;
  }
  void skip(int wire) {
    if (wire == WIRE_VARINT) varint();
    else if (wire == WIRE_64) take(8);
    else if (wire == WIRE_32) take(4);
    else if (wire == WIRE_BYTES) take(varint());
    else throw std::runtime_error("a field has an unknown wire type");
  }

 private:
  const char *at_, *end_;
};

class Writer {
 public:
  explicit Writer(string* out) : out_(out) {}
  void varint(uint64 value) {
    for (; value >= 0x80; value >>= 7) out_->push_back(char(value | 0x80));
    out_->push_back(char(value));
  }
  void tag(int number, int wire) { varint(uint64(number) << 3 | wire); }
  void raw(const void* bytes, size_t size) { out_->append(static_cast<const char*>(bytes), size); }
  void bytes(int number, const string& text) {
    tag(number, WIRE_BYTES);
    varint(text.size());
    *out_ += text;
  }

 private:
  string* out_;
};

template <typename T, Encoding E>
struct Coding {
  static int wire() { return E != FIXED ? WIRE_VARINT : sizeof(T) == 8 ? WIRE_64 : WIRE_32; }
  static T read(Reader& in) {
    if constexpr (E == FIXED) {
      T value;
      std::memcpy(&value, in.take(sizeof(T)), sizeof(T));
      return value;
    } else {
      const uint64 bits = in.varint();
      return static_cast<T>(E == ZIGZAG ? int64(bits >> 1) ^ -int64(bits & 1) : int64(bits));
    }
  }
  static void write(Writer& out, T value) {
    if constexpr (E == FIXED) {
      out.raw(&value, sizeof(T));
    } else {
      const int64 number = static_cast<int64>(value);
      out.varint(E == ZIGZAG ? uint64(number << 1) ^ uint64(number >> 63) : uint64(number));
    }
  }
};

// The value of a field, whatever its type.
class Cell {
 public:
  virtual ~Cell() {}
  virtual bool set() const = 0;
  virtual void clear() = 0;
  virtual void merge(const Cell& other) = 0;
  virtual void read(Reader& in, int wire) = 0;
  virtual void write(Writer& out, int number) const = 0;
  virtual void print(std::ostream& out, const char* name, const string& indent) const = 0;
};

inline void print_value(std::ostream& out, const string& value) { out << '"' << value << '"'; }
template <typename T>
void print_value(std::ostream& out, const T& value) { out << value; }

template <typename T, Encoding E>
class Scalar : public Cell {
 public:
  explicit Scalar(T initial = T()) : value_(initial), initial_(initial), set_(false) {}
  T get() const { return value_; }
  void put(T value) { value_ = value, set_ = true; }
  bool set() const override { return set_; }
  void clear() override { value_ = initial_, set_ = false; }
  void merge(const Cell& other) override {
    const Scalar& from = static_cast<const Scalar&>(other);
    if (from.set_) put(from.value_);
  }
  void read(Reader& in, int wire) override {
    if (wire != Coding<T, E>::wire()) return in.skip(wire);
    put(Coding<T, E>::read(in));
  }
  void write(Writer& out, int number) const override {
    if (!set_) return;
    out.tag(number, Coding<T, E>::wire());
    Coding<T, E>::write(out, value_);
  }
  void print(std::ostream& out, const char* name, const string& indent) const override {
    if (set_) out << indent << name << ": " << value_ << '\n';
  }

 private:
  T value_, initial_;
  bool set_;
};

class Text : public Cell {
 public:
  explicit Text(const char* initial = "", size_t size = 0) : value_(initial, size), initial_(initial, size), set_(false) {}
  const string& get() const { return value_; }
  string* mutate() { return set_ = true, &value_; }
  void put(const string& value) { *mutate() = value; }
  bool set() const override { return set_; }
  void clear() override { value_ = initial_, set_ = false; }
  void merge(const Cell& other) override {
    const Text& from = static_cast<const Text&>(other);
    if (from.set_) put(from.value_);
  }
  void read(Reader& in, int wire) override {
    if (wire != WIRE_BYTES) return in.skip(wire);
    put(in.bytes().rest());
  }
  void write(Writer& out, int number) const override {
    if (set_) out.bytes(number, value_);
  }
  void print(std::ostream& out, const char* name, const string& indent) const override {
    if (set_) out << indent << name << ": \"" << value_ << "\"\n";
  }

 private:
  string value_, initial_;
  bool set_;
};

namespace io {
class ZeroCopyInputStream {
 public:
  virtual ~ZeroCopyInputStream() {}
};
class ZeroCopyOutputStream {
 public:
  virtual ~ZeroCopyOutputStream() {}
};
struct FileInputStream : ZeroCopyInputStream {
  explicit FileInputStream(int) {}
};
struct FileOutputStream : ZeroCopyOutputStream {
  explicit FileOutputStream(int) {}
};
struct IstreamInputStream : ZeroCopyInputStream {
  explicit IstreamInputStream(std::istream*) {}
};
struct OstreamOutputStream : ZeroCopyOutputStream {
  explicit OstreamOutputStream(std::ostream*) {}
};
struct ArrayInputStream : ZeroCopyInputStream {
  ArrayInputStream(const void*, int) {}
};
struct StringOutputStream : ZeroCopyOutputStream {
  explicit StringOutputStream(string*) {}
};
struct CodedInputStream {
  explicit CodedInputStream(ZeroCopyInputStream*) {}
  void SetTotalBytesLimit(int, int = 0) {}
};
struct CodedOutputStream {
  explicit CodedOutputStream(ZeroCopyOutputStream*) {}
};
}  // namespace io

[[noreturn]] inline void no_files() { throw std::runtime_error("messages are not read from files here"); }

class Message {
 public:
  virtual ~Message() {}
  virtual int cells() const = 0;
  virtual Cell* cell(int index) = 0;
  virtual int number(int index) const = 0;
  virtual const char* name(int index) const = 0;
  virtual string GetTypeName() const = 0;

  void Clear() { for (int i = 0; i < cells(); ++i) cell(i)->clear(); }
  void MergeFrom(const Message& other);
  void CopyFrom(const Message& other) {
    if (&other != this) Clear(), MergeFrom(other);
  }
  bool MergeFromReader(Reader& in);
  bool ParseFromArray(const void* bytes, int size) {
    Reader in(static_cast<const char*>(bytes), size);
    Clear();
    return MergeFromReader(in);
  }
  bool ParsePartialFromArray(const void* bytes, int size) { return ParseFromArray(bytes, size); }
  bool ParseFromString(const string& text) { return ParseFromArray(text.data(), text.size()); }
  bool ParsePartialFromString(const string& text) { return ParseFromString(text); }
  bool MergeFromString(const string& text) {
    Reader in(text.data(), text.size());
    return MergeFromReader(in);
  }
  bool ParseFromIstream(std::istream* in) {
    return ParseFromString(string(std::istreambuf_iterator<char>(*in), std::istreambuf_iterator<char>()));
  }
  bool ParseFromCodedStream(io::CodedInputStream*) { no_files(); }
  bool ParseFromZeroCopyStream(io::ZeroCopyInputStream*) { no_files(); }
  bool SerializeToZeroCopyStream(io::ZeroCopyOutputStream*) const { no_files(); }
  bool ParseFromFileDescriptor(int) { no_files(); }
  bool SerializeToString(string* out) const { return out->clear(), AppendToString(out); }
  bool SerializePartialToString(string* out) const { return SerializeToString(out); }
  bool AppendToString(string* out) const;
  string SerializeAsString() const {
    string text;
    AppendToString(&text);
    return text;
  }
  bool SerializeToOstream(std::ostream* out) const { return bool(*out << SerializeAsString()); }
  bool SerializeToArray(void* bytes, int size) const {
    const string text = SerializeAsString();
    if (size < int(text.size())) return false;
    std::memcpy(bytes, text.data(), text.size());
    return true;
  }
  int ByteSize() const { return SerializeAsString().size(); }
  size_t ByteSizeLong() const { return SerializeAsString().size(); }
  int SpaceUsed() const { return ByteSize(); }
  bool IsInitialized() const { return true; }
  string DebugString() const {
    std::ostringstream out;
    print(out, "");
    return out.str();
  }
  string ShortDebugString() const { return DebugString(); }
  string InitializationErrorString() const { return ""; }
  void PrintDebugString() const { std::cout << DebugString(); }
  void print(std::ostream& out, const string& indent) const;
};
typedef Message MessageLite;
inline std::ostream& operator<<(std::ostream& out, const Message& message) { return out << message.DebugString(); }

// A message within a message; it is made when something is written to it.
template <typename M>
class Single : public Cell {
 public:
  Single() : value_(nullptr) {}
  ~Single() override { delete value_; }
  Single(const Single&) = delete;
  Single& operator=(const Single&) = delete;
  const M& get() const { return value_ ? *value_ : M::default_instance(); }
  M* mutate() { return value_ ? value_ : value_ = new M(); }
  M* release() { return std::exchange(value_, nullptr); }
  void adopt(M* value) { delete std::exchange(value_, value); }
  bool set() const override { return value_; }
  void clear() override { adopt(nullptr); }
  void merge(const Cell& other) override {
    if (other.set()) mutate()->MergeFrom(static_cast<const Single&>(other).get());
  }
  void read(Reader& in, int wire) override {
    if (wire != WIRE_BYTES) return in.skip(wire);
    Reader inner = in.bytes();
    mutate()->MergeFromReader(inner);
  }
  void write(Writer& out, int number) const override {
    if (value_) out.bytes(number, value_->SerializeAsString());
  }
  void print(std::ostream& out, const char* name, const string& indent) const override {
    if (!value_) return;
    out << indent << name << " {\n";
    value_->print(out, indent + "  ");
    out << indent << "}\n";
  }

 private:
  M* value_;
};

template <typename T>
class RepeatedField {
 public:
  typedef T* iterator;
  typedef const T* const_iterator;
  typedef T value_type;
  RepeatedField() {}
  template <typename Iterator>
  RepeatedField(Iterator first, Iterator last) {
    for (; first != last; ++first) Add(*first);
  }
  int size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  int Capacity() const { return items_.capacity(); }
  T Get(int i) const { return items_.at(i).value; }
  T operator[](int i) const { return Get(i); }
  T* Mutable(int i) { return &items_.at(i).value; }
  void Set(int i, T value) { items_.at(i).value = value; }
  void Add(T value) { items_.push_back(Item{value}); }
  T* Add() { return items_.push_back(Item{T()}), &items_.back().value; }
  void AddAlreadyReserved(T value) { Add(value); }
  void Reserve(int size) { items_.reserve(size); }
  void Resize(int size, T value) { items_.resize(size, Item{value}); }
  void Truncate(int size) { items_.resize(size); }
  void RemoveLast() { items_.pop_back(); }
  void Clear() { items_.clear(); }
  void MergeFrom(const RepeatedField& other) { items_.insert(items_.end(), other.items_.begin(), other.items_.end()); }
  void CopyFrom(const RepeatedField& other) { items_ = other.items_; }
  void Swap(RepeatedField* other) { items_.swap(other->items_); }
  void SwapElements(int i, int j) { std::swap(items_.at(i), items_.at(j)); }
  const T* data() const { return reinterpret_cast<const T*>(items_.data()); }
  T* mutable_data() { return reinterpret_cast<T*>(items_.data()); }
  iterator begin() { return mutable_data(); }
  iterator end() { return mutable_data() + size(); }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size(); }

 private:
  struct Item {  // a vector of bool has no pointers to its elements
    T value;
  };
  std::vector<Item> items_;
};

template <typename T, Encoding E>
class Repeated : public Cell {
 public:
  RepeatedField<T> field;
  bool set() const override { return field.size(); }
  void clear() override { field.Clear(); }
  void merge(const Cell& other) override { field.MergeFrom(static_cast<const Repeated&>(other).field); }
  void read(Reader& in, int wire) override {
    if (wire == WIRE_BYTES) {
      for (Reader packed = in.bytes(); !packed.done();) field.Add(Coding<T, E>::read(packed));
    } else if (wire == Coding<T, E>::wire()) {
      field.Add(Coding<T, E>::read(in));
    } else {
      in.skip(wire);
    }
  }
  void write(Writer& out, int number) const override {
    for (T value : field) {
      out.tag(number, Coding<T, E>::wire());
      Coding<T, E>::write(out, value);
    }
  }
  void print(std::ostream& out, const char* name, const string& indent) const override {
    for (T value : field) out << indent << name << ": " << value << '\n';
  }
};

template <typename T>
class RepeatedPtrField {
  template <typename V, typename P>
  struct Iterator {
    typedef std::random_access_iterator_tag iterator_category;
    typedef T value_type;
    typedef std::ptrdiff_t difference_type;
    typedef V* pointer;
    typedef V& reference;
    P at;
    V& operator*() const { return **at; }
    V* operator->() const { return *at; }
    V& operator[](difference_type i) const { return *at[i]; }
    Iterator& operator++() { return ++at, *this; }
    Iterator& operator--() { return --at, *this; }
    Iterator operator++(int) { return Iterator{at++}; }
    Iterator& operator+=(difference_type n) { return at += n, *this; }
    Iterator operator+(difference_type n) const { return Iterator{at + n}; }
    Iterator operator-(difference_type n) const { return Iterator{at - n}; }
    difference_type operator-(const Iterator& other) const { return at - other.at; }
    bool operator==(const Iterator& other) const { return at == other.at; }
    bool operator!=(const Iterator& other) const { return at != other.at; }
    bool operator<(const Iterator& other) const { return at < other.at; }
  };

 public:
  typedef Iterator<T, T* const*> iterator;
  typedef Iterator<const T, T* const*> const_iterator;
  typedef T value_type;
  RepeatedPtrField() {}
  RepeatedPtrField(const RepeatedPtrField& other) { MergeFrom(other); }
  RepeatedPtrField& operator=(const RepeatedPtrField& other) { return CopyFrom(other), *this; }
  ~RepeatedPtrField() { Clear(); }
  int size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const T& Get(int i) const { return *items_.at(i); }
  const T& operator[](int i) const { return Get(i); }
  T* Mutable(int i) { return items_.at(i); }
  T* Add() { return items_.push_back(new T()), items_.back(); }
  void AddAllocated(T* item) { items_.push_back(item); }
  T* ReleaseLast() {
    T* last = items_.back();
    items_.pop_back();
    return last;
  }
  void RemoveLast() { delete ReleaseLast(); }
  void Reserve(int size) { items_.reserve(size); }
  void Clear() {
    for (T* item : items_) delete item;
    items_.clear();
  }
  void MergeFrom(const RepeatedPtrField& other) {
    for (const T& item : other) *Add() = item;
  }
  void CopyFrom(const RepeatedPtrField& other) {
    if (&other != this) Clear(), MergeFrom(other);
  }
  void Swap(RepeatedPtrField* other) { items_.swap(other->items_); }
  void SwapElements(int i, int j) { std::swap(items_.at(i), items_.at(j)); }
  void DeleteSubrange(int start, int count) {
    for (int i = start; i < start + count; ++i) delete items_.at(i);
    items_.erase(items_.begin() + start, items_.begin() + start + count);
  }
  iterator begin() { return iterator{items_.data()}; }
  iterator end() { return iterator{items_.data() + size()}; }
  const_iterator begin() const { return const_iterator{items_.data()}; }
  const_iterator end() const { return const_iterator{items_.data() + size()}; }

 private:
  std::vector<T*> items_;
};

template <typename T>
class RepeatedItems : public Cell {
 public:
  RepeatedPtrField<T> field;
  bool set() const override { return field.size(); }
  void clear() override { field.Clear(); }
  void merge(const Cell& other) override { field.MergeFrom(static_cast<const RepeatedItems&>(other).field); }
  void read(Reader& in, int wire) override {
    if (wire != WIRE_BYTES) return in.skip(wire);
    Reader inner = in.bytes();
    if constexpr (std::is_same<T, string>::value) *field.Add() = inner.rest();
    else field.Add()->MergeFromReader(inner);
  }
  void write(Writer& out, int number) const override {
    for (const T& item : field) {
      if constexpr (std::is_same<T, string>::value) out.bytes(number, item);
      else out.bytes(number, item.SerializeAsString());
    }
  }
  void print(std::ostream& out, const char* name, const string& indent) const override {
    for (const T& item : field) {
      if constexpr (std::is_same<T, string>::value) {
        out << indent << name << ": \"" << item << "\"\n";
      } else {
        out << indent << name << " {\n";
        item.print(out, indent + "  ");
        out << indent << "}\n";
      }
    }
  }
};

struct EnumValue {
  const char* name;
  int number;
};
const string& enum_name(const EnumValue* values, int count, int number);
bool enum_parse(const EnumValue* values, int count, const string& name, int* number);

struct TextFormat {
  static bool Parse(io::ZeroCopyInputStream*, Message*) { no_files(); }
  static bool Merge(io::ZeroCopyInputStream*, Message*) { no_files(); }
  static bool ParseFromString(const string&, Message*) { no_files(); }
  static bool MergeFromString(const string&, Message*) { no_files(); }
  static bool Print(const Message&, io::ZeroCopyOutputStream*) { no_files(); }
  static bool PrintToString(const Message& message, string* out) { return *out = message.DebugString(), true; }
};
inline void ShutdownProtobufLibrary() {}
enum LogLevel { LOGLEVEL_INFO, LOGLEVEL_WARNING, LOGLEVEL_ERROR, LOGLEVEL_FATAL };
typedef void LogHandler(LogLevel, const char*, int, const string&);
inline LogHandler* SetLogHandler(LogHandler* handler) { return handler; }

}  // namespace protobuf
}  // namespace google

#define GOOGLE_PROTOBUF_VERIFY_VERSION
