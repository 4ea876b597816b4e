"""Fields that zhaoweicai/mscnn added."""

FIELDS = {"MS-CNN's Caffe": {"ImageGtDataParameter": "mean_file mirror=false"}}
