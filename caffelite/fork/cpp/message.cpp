// What all message classes share.
#include "shim/protobuf.hpp"

namespace google {
namespace protobuf {

void Message::MergeFrom(const Message& other) {
  for (int i = 0; i < cells(); ++i) cell(i)->merge(*const_cast<Message&>(other).cell(i));
}

bool Message::MergeFromReader(Reader& in) {
  while (!in.done()) {
    const uint64 tag = in.varint();
    int i = 0;
    while (i < cells() && number(i) != int(tag >> 3)) ++i;
    if (i < cells()) cell(i)->read(in, tag & 7);
    else in.skip(tag & 7);
  }
  return true;
}

bool Message::AppendToString(string* out) const {
  Writer writer(out);
  for (int i = 0; i < cells(); ++i) const_cast<Message*>(this)->cell(i)->write(writer, number(i));
  return true;
}

void Message::print(std::ostream& out, const string& indent) const {
  for (int i = 0; i < cells(); ++i) const_cast<Message*>(this)->cell(i)->print(out, name(i), indent);
}

const string& enum_name(const EnumValue* values, int count, int number) {
  static thread_local string name;
  name.clear();
  for (int i = 0; i < count && name.empty(); ++i)
    if (values[i].number == number) name = values[i].name;
  return name;
}

bool enum_parse(const EnumValue* values, int count, const string& name, int* number) {
  for (int i = 0; i < count; ++i)
    if (name == values[i].name) return *number = values[i].number, true;
  return false;
}

}  // namespace protobuf
}  // namespace google
