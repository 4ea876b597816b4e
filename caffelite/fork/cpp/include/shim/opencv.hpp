// The part of OpenCV with which layers compute: arrays of two axes, their extremes and sums. Files and windows throw.
#pragma once
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

typedef unsigned char uchar;
enum { CV_8U = 0, CV_8S, CV_16U, CV_16S, CV_32S, CV_32F, CV_64F };
#define CV_MAKETYPE(depth, channels) ((depth) + (((channels) - 1) << 3))
enum { CV_8UC1 = CV_8U, CV_8UC3 = CV_MAKETYPE(CV_8U, 3), CV_32SC1 = CV_32S, CV_32FC1 = CV_32F,
  CV_32FC3 = CV_MAKETYPE(CV_32F, 3), CV_64FC1 = CV_64F };
enum { CV_LOAD_IMAGE_GRAYSCALE = 0, CV_LOAD_IMAGE_COLOR = 1, CV_WINDOW_AUTOSIZE = 1, CV_BGR2RGB = 4, CV_RGB2BGR = 4 };

namespace cv {
enum { INTER_NEAREST, INTER_LINEAR, INTER_CUBIC, BORDER_CONSTANT = 0, WINDOW_AUTOSIZE = 1, COLOR_BGR2RGB = 4 };
template <typename T>
struct Size_ {
  T width, height;
  Size_(T w = 0, T h = 0) : width(w), height(h) {}
};
typedef Size_<int> Size;
struct Scalar {
  double val[4];
  Scalar(double a = 0, double b = 0, double c = 0, double d = 0) : val{a, b, c, d} {}
  double operator[](int i) const { return val[i]; }
};
template <typename T>
struct Rect_ {
  T x, y, width, height;
  Rect_(T x = 0, T y = 0, T w = 0, T h = 0) : x(x), y(y), width(w), height(h) {}
};
typedef Rect_<int> Rect;
template <typename T>
struct Point_ {
  T x, y;
  Point_(T x = 0, T y = 0) : x(x), y(y) {}
  Point_ operator+(const Point_& other) const { return Point_(x + other.x, y + other.y); }
  Point_ operator-(const Point_& other) const { return Point_(x - other.x, y - other.y); }
};
typedef Point_<int> Point;
typedef Point_<int> Point2i;
typedef Point_<float> Point2f;
template <typename T>
double norm(const Point_<T>& point) { return std::sqrt(double(point.x) * point.x + double(point.y) * point.y); }
template <typename T, int N>
struct Vec {
  T val[N];
  T& operator[](int i) { return val[i]; }
  const T& operator[](int i) const { return val[i]; }
};
typedef Vec<uchar, 3> Vec3b;
typedef Vec<float, 3> Vec3f;

// Copies have the same memory
class Mat {
 public:
  int rows = 0, cols = 0;
  uchar* data = nullptr;

  Mat() {}
  Mat(int rows, int cols, int type, const Scalar& value = Scalar()) {
    create(rows, cols, type);
    for (int y = 0; y < rows; ++y)
      for (int i = 0; i < cols * channels(); ++i) set(y, i, value.val[i % channels()]);
  }
  static Mat zeros(int rows, int cols, int type) { return Mat(rows, cols, type); }
  void create(int height, int width, int type) {
    rows = height, cols = width, type_ = type;
    memory_.reset(new std::vector<uchar>(size_t(rows) * cols * elemSize()));
    data = memory_->data();
  }
  int type() const { return type_; }
  int depth() const { return type_ & 7; }
  int channels() const { return (type_ >> 3) + 1; }
  size_t elemSize() const { return channels() * (1 << "\0\0\1\1\2\2\3\0"[depth()]); }
  size_t total() const { return size_t(rows) * cols; }
  bool empty() const { return !total(); }
  Size size() const { return Size(cols, rows); }
  Mat clone() const {
    Mat copy(rows, cols, type_);
    std::memcpy(copy.data, data, total() * elemSize());
    return copy;
  }
  template <typename T>
  T* ptr(int y = 0) const { return reinterpret_cast<T*>(data + y * cols * elemSize()); }
  template <typename T>
  T& at(int y, int x) const {
    if (y < 0 || y >= rows || x < 0 || x >= cols) throw std::runtime_error("beyond an array of OpenCV");
    return ptr<T>(y)[x];
  }
  double value(int y, int i) const {  // the number i of a row
    double result = 0;
    visit([&](auto* first) { result = double(first[y * cols * channels() + i]); });
    return result;
  }

 private:
  void set(int y, int i, double value) {
    visit([&](auto* first) { first[y * cols * channels() + i] = value; });
  }
  template <typename F>
  void visit(F call) const {
    switch (depth()) {
      case CV_8U: return call(ptr<uchar>());
      case CV_8S: return call(ptr<signed char>());
      case CV_16U: return call(ptr<unsigned short>());
      case CV_16S: return call(ptr<short>());
      case CV_32S: return call(ptr<int>());
      case CV_32F: return call(ptr<float>());
      default: return call(ptr<double>());
    }
  }
  std::shared_ptr<std::vector<uchar>> memory_;
  int type_ = 0;
};
template <typename T>
class Mat_ : public Mat {};

// Of several extremes the first, by rows
inline void minMaxLoc(const Mat& m, double* least, double* most = 0, Point* where_least = 0, Point* where_most = 0) {
  if (m.empty()) return;
  double low = m.value(0, 0), high = low;
  Point at_low, at_high;
  for (int y = 0; y < m.rows; ++y)
    for (int x = 0; x < m.cols; ++x) {
      const double value = m.value(y, x);
      if (value < low) low = value, at_low = Point(x, y);
      if (value > high) high = value, at_high = Point(x, y);
    }
  if (least) *least = low;
  if (most) *most = high;
  if (where_least) *where_least = at_low;
  if (where_most) *where_most = at_high;
}
inline Scalar sum(const Mat& m) {
  Scalar total;
  for (int y = 0; y < m.rows; ++y)
    for (int i = 0; i < m.cols * m.channels(); ++i) total.val[i % m.channels()] += m.value(y, i);
  return total;
}

#define FORK_OPENCV(name) \
  template <typename... A> \
  shim::Anything name(const A&...) { shim::no_library("OpenCV's " #name); }
FORK_OPENCV(imread) FORK_OPENCV(imwrite) FORK_OPENCV(imdecode) FORK_OPENCV(namedWindow) FORK_OPENCV(imshow)
FORK_OPENCV(waitKey) FORK_OPENCV(circle) FORK_OPENCV(line) FORK_OPENCV(rectangle) FORK_OPENCV(putText)
FORK_OPENCV(resize) FORK_OPENCV(cvtColor) FORK_OPENCV(flip) FORK_OPENCV(merge) FORK_OPENCV(split)
FORK_OPENCV(copyMakeBorder) FORK_OPENCV(transpose) FORK_OPENCV(warpAffine) FORK_OPENCV(getRotationMatrix2D)
}  // namespace cv
