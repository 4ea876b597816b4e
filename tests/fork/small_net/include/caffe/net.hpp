// A Net and a Solver in the style of 2014, as far as nets without branches need them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "caffe/blob.hpp"
#include "caffe/layer.hpp"

namespace caffe {

template <typename Dtype>
class Net {
 public:
  explicit Net(const NetParameter& param);
  const vector<Blob<Dtype>*>& ForwardPrefilled(Dtype* loss = NULL);
  void Backward();
  void Update();
  const vector<shared_ptr<Layer<Dtype> > >& layers() { return layers_; }
  const vector<string>& layer_names() { return layer_names_; }
  const vector<shared_ptr<Blob<Dtype> > >& blobs() { return blobs_; }
  const vector<string>& blob_names() { return blob_names_; }

 private:
  Blob<Dtype>* top(const string& name);
  vector<shared_ptr<Layer<Dtype> > > layers_;
  vector<string> layer_names_, blob_names_;
  vector<shared_ptr<Blob<Dtype> > > blobs_;
  std::map<string, int> index_;
  vector<vector<Blob<Dtype>*> > bottoms_, tops_;
  vector<Blob<Dtype>*> outputs_;
};

}  // namespace caffe
