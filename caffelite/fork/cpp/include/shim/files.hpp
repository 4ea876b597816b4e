// Names of HDF5, LevelDB, LMDB and gtest that headers of Caffe mention: layers read no files through them.
#pragma once
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace shim {
[[noreturn]] inline void no_library(const char* name) {
  throw std::runtime_error(std::string(name) + " is not available to a layer of a fork");
}
struct Anything {  // what a function returns that is not available
  template <typename T>
  operator T() const { no_library("this library"); }
};
}  // namespace shim

typedef long long hid_t;
typedef int herr_t;
typedef unsigned long long hsize_t;
typedef int htri_t;
enum H5T_class_t { H5T_NO_CLASS = -1, H5T_INTEGER, H5T_FLOAT, H5T_TIME, H5T_STRING, H5T_BITFIELD, H5T_OPAQUE, H5T_COMPOUND,
  H5T_REFERENCE, H5T_ENUM, H5T_VLEN, H5T_ARRAY };
enum { H5F_ACC_RDONLY, H5F_ACC_TRUNC, H5P_DEFAULT, H5G_GROUP, H5_INDEX_NAME, H5_ITER_NATIVE, H5_ITER_INC };
struct H5G_info_t {
  hsize_t nlinks;
};
#define FORK_HDF5(name) \
  template <typename... A> \
  int name(A...) { shim::no_library("HDF5"); }
FORK_HDF5(H5Fis_hdf5) FORK_HDF5(H5Fopen) FORK_HDF5(H5Fcreate) FORK_HDF5(H5Fclose) FORK_HDF5(H5Gopen2) FORK_HDF5(H5Gcreate2)
FORK_HDF5(H5Gclose) FORK_HDF5(H5Lexists) FORK_HDF5(H5Gget_info) FORK_HDF5(H5Lget_name_by_idx)
FORK_HDF5(H5LTfind_dataset) FORK_HDF5(H5LTget_dataset_ndims) FORK_HDF5(H5LTget_dataset_info)
FORK_HDF5(H5LTread_dataset_float) FORK_HDF5(H5LTread_dataset_double) FORK_HDF5(H5LTmake_dataset_float)
FORK_HDF5(H5LTmake_dataset_double) FORK_HDF5(H5LTread_dataset_string) FORK_HDF5(H5LTmake_dataset_string)
FORK_HDF5(H5LTread_dataset_int) FORK_HDF5(H5LTmake_dataset_int)

namespace leveldb {  // whole classes: headers of 2015 call them
struct Slice {
  Slice(const std::string&) {}
  std::string ToString() const { return ""; }
};
struct Status {
  bool ok() const { return false; }
  std::string ToString() const { return "LevelDB is not available to a layer of a fork"; }
};
struct Options {
  int block_size, write_buffer_size, max_open_files;
  bool error_if_exists, create_if_missing;
};
struct ReadOptions {};
struct WriteOptions {};
struct WriteBatch {
  void Put(const Slice&, const Slice&) {}
  void Clear() {}
};
struct Iterator {
  void SeekToFirst() {}
  void Next() {}
  bool Valid() const { return false; }
  Slice key() const { shim::no_library("LevelDB"); }
  Slice value() const { shim::no_library("LevelDB"); }
};
struct DB {
  static Status Open(const Options&, const std::string&, DB**) { return Status(); }
  Iterator* NewIterator(const ReadOptions&) { shim::no_library("LevelDB"); }
  Status Write(const WriteOptions&, WriteBatch*) { return Status(); }
};
}  // namespace leveldb
struct MDB_env;
struct MDB_txn;
struct MDB_cursor;
struct MDB_val {
  size_t mv_size;
  void* mv_data;
};
typedef unsigned int MDB_dbi;
enum MDB_cursor_op { MDB_FIRST, MDB_NEXT };
enum { MDB_SUCCESS = 0, MDB_NOTFOUND = -30798, MDB_RDONLY = 0x20000, MDB_NOTLS = 0x200000, MDB_NOLOCK = 0x400000 };
#define FORK_LMDB(name) \
  template <typename... A> \
  int name(A...) { shim::no_library("LMDB"); }
FORK_LMDB(mdb_env_create) FORK_LMDB(mdb_env_set_mapsize) FORK_LMDB(mdb_env_open) FORK_LMDB(mdb_env_close)
FORK_LMDB(mdb_txn_begin) FORK_LMDB(mdb_txn_commit) FORK_LMDB(mdb_txn_abort) FORK_LMDB(mdb_dbi_open) FORK_LMDB(mdb_dbi_close)
FORK_LMDB(mdb_cursor_open) FORK_LMDB(mdb_cursor_get) FORK_LMDB(mdb_cursor_close) FORK_LMDB(mdb_put)
inline const char* mdb_strerror(int) { return "LMDB is not available to a layer of a fork"; }

#include "shim/opencv.hpp"

namespace testing {
class Test;
}
#define FRIEND_TEST(group, name) friend class group##_##name##_Test
