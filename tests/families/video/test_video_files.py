"""Files of forks: videos."""

from prototxt.upgrading import expect


def test_a_video_of_a_local_source():
    expect(
        'layer { type: "VideoData" video_data_param { video_type: LOCAL_SOURCE source: "x.mp4" } }',
        'layer { type: "VideoData" video_data_param { video_type: VIDEO video_file: "x.mp4" } }',
    )


def test_clips_of_c3d():
    word = expect(
        """layers { type: VIDEO_DATA image_data_param { source: "s" batch_size: 9 new_length: 10 use_image: true
            mean_file: "m" crop_size: 11 } }""",
        """layer { type: "VideoClips" video_data_param { source: "s" batch_size: 9 new_length: 10 use_image: true }
            transform_param { mean_file: "m" crop_size: 11 } }""",
    )
    assert word("layer", 0, "video_data_param", "new_length") == "10"
    expect(
        'layer { type: "VideoData" video_data_param { source: "s" sampling_rate: 2 } }',
        'layer { type: "VideoClips" video_data_param { source: "s" sampling_rate: 2 } }',
    )


def test_clips_of_video_caffe():
    """Nets whose convolutions have an axis of frames."""
    expect(
        """layer { type: "VideoData" top: "data" top: "label" video_data_param { source: "s" new_length: 16 } }
        layer { type: "NdConvolution" bottom: "data" top: "y" convolution_param {
            kernel_shape { dim: 3 dim: 3 dim: 3 } } }""",
        """layer { type: "VideoClips" top: "data" top: "label" video_data_param { source: "s" new_length: 16 } }
        layer { type: "Convolution" bottom: "data" top: "y" convolution_param {
            kernel_size: 3 kernel_size: 3 kernel_size: 3 } }""",
    )
