"""The names of the files of a net in a folder: of the zoo, of projects, and where commands take a folder for a file."""

TRAIN_NET, DEPLOY_NET, SOLVER = "train_val.prototxt", "deploy.prototxt", "solver.prototxt"
