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
