#include <boost/property_tree/ptree.hpp>
#include <opencv2/core/core.hpp>
#include <opencv2/highgui/highgui.hpp>

#include "caffe/own_layers.hpp"

namespace caffe {

// The place and the height of the maximum of each map: x, y, value
template <typename Dtype>
void PeakLayer<Dtype>::Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  top[0]->Reshape(bottom[0]->num(), bottom[0]->channels(), 3, 1);
}

template <typename Dtype>
void PeakLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  const int height = bottom[0]->height(), width = bottom[0]->width();
  for (int map = 0; map < bottom[0]->num() * bottom[0]->channels(); ++map) {
    cv::Mat heat = cv::Mat::zeros(height, width, CV_32FC1);
    for (int i = 0; i < height; ++i) {
      for (int j = 0; j < width; ++j) heat.at<float>(i, j) = bottom[0]->cpu_data()[(map * height + i) * width + j];
    }
    double least, most;
    cv::Point where_least, where_most;
    cv::minMaxLoc(heat, &least, &most, &where_least, &where_most);
    boost::property_tree::ptree place;
    place.put("x", where_most.x);
    place.put("y", where_most.y);
    top[0]->mutable_cpu_data()[3 * map] = place.get<int>("x");
    top[0]->mutable_cpu_data()[3 * map + 1] = place.get<int>("y");
    top[0]->mutable_cpu_data()[3 * map + 2] = most;
    if (this->calls_) Show(heat);
  }
}

template <typename Dtype>
void PeakLayer<Dtype>::Show(cv::Mat heat) {
  cv::namedWindow("heat", CV_WINDOW_AUTOSIZE);
  cv::GaussianBlur(heat, heat, cv::Size(3, 3), 1);
  cv::imshow("heat", heat);
}

INSTANTIATE_CLASS(PeakLayer);
REGISTER_LAYER_CLASS(Peak);

}  // namespace caffe
