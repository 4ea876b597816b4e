"""The arrangement of a job's processes: copies of the net (groups), stages of a net, shards of a stage."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MeshPosition:
    """The place of a rank: its group, the stage within the group, the shard within the stage."""

    group: int = 0
    stage: int = 0
    shard: int = 0


@dataclass(frozen=True)
class MeshShape:
    """``groups`` copies of a net, each over ``stages`` x ``shards`` processes. The ranks of a group, and
    within it those of a stage, are consecutive, so that they are on one machine where possible."""

    groups: int = 1
    stages: int = 1
    shards: int = 1

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.groups * self.stages * self.shards

    def position(self, rank: int) -> MeshPosition:
        """The place of a rank."""
        stage, shard = divmod(rank, self.shards)
        group, stage = divmod(stage, self.stages)
        return MeshPosition(group, stage, shard)

    def rank(self, position: MeshPosition) -> int:
        """The rank at a place."""
        return (position.group * self.stages + position.stage) * self.shards + position.shard

    def replicas(self, rank: int) -> list[int]:
        """The ranks that hold the same part of the net, one of each group."""
        at = self.position(rank)
        return [self.rank(MeshPosition(group, at.stage, at.shard)) for group in range(self.groups)]

    def same_stage(self, rank: int) -> list[int]:
        """The ranks of all groups that hold the same layers."""
        stage = self.position(rank).stage
        return [other for other in range(self.size) if self.position(other).stage == stage]

    def model(self, rank: int) -> list[int]:
        """The ranks that hold one copy of the net together with this one, in the order of stages, then shards."""
        first = self.position(rank).group * self.stages * self.shards
        return list(range(first, first + self.stages * self.shards))

    def stage(self, rank: int) -> list[int]:
        """The ranks that divide a stage's layers with this one, in the order of shards."""
        at = self.position(rank)
        first = self.rank(MeshPosition(at.group, at.stage, 0))
        return list(range(first, first + self.shards))
