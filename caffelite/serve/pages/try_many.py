"""Many images for a deploy net: a job writes a table of answers, or a test report where the answers are known."""

from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from ... import roots
from ...data.pictures import ENDINGS
from ...errors import CaffeliteError
from ...runs.queue.job import new_id
from .. import nets, page, uploads, work
from ..config import Limits, ServeConfig
from .model import REPORTS
from .try_model import MOST_TOP

UPLOADS, ANSWERS = "uploads", "answers"


def many(request: Request, fields: page.Fields) -> Response:
    """Queues the classification of many images: uploaded ones, or those of a folder or list below the roots. With the
    field score their folders, or the list, name their right classes, which become a test report."""
    config = page.config_of(request)
    net = config.resolve(page.text_field(fields, "net"))
    document, _ = nets.read(config, net)
    top = page.number(page.text_field(fields, "top", "5"), "top", 1, MOST_TOP, 5)
    is_scored = page.text_field(fields, "score", "") == "on"
    name = new_id()
    source, stored = _source(config, config.root_of(net), name, fields, is_scored)
    words = ["--model", str(net), "--weights", str(nets.weights(config, document)), "--skip"]
    if is_scored:
        result = config.root_of(net) / REPORTS / f"pictures_{name}"
        words = ["classify", "--list", str(source), *words, "--report", str(result)]
    else:
        result = config.root_of(net) / ANSWERS / f"{name}.csv"
        words = ["classify", str(source), *words, "--top", str(top), "--csv", str(result)]
    with roots.folder(result.parent, make=True):
        pass
    job, values = work.queued(config, net, words, result)
    if is_scored:
        where = page.address("/models/report", path=values["result"], job=job.id)
    else:
        where = page.address(f"/queue/jobs/{job.id}", result=values["result"])
    values |= {"page": where, "others": stored.others, "left_out": stored.left_out}
    return page.done(request, f"{where}&left_out={stored.others}", values)


def _source(
    config: ServeConfig, root: Path, name: str, fields: page.Fields, is_scored: bool
) -> tuple[Path, uploads.Stored]:
    """The folder or list of images that a form names, and what was stored of its uploads."""
    sent = page.uploads(fields, "images")
    if not sent:
        source = config.resolve(page.text_field(fields, "folder"))
        if not source.exists():
            raise CaffeliteError("no such folder", found=page.text_field(fields, "folder")[:200])
        return source, uploads.Stored()
    folder = root / UPLOADS / name
    if is_scored:
        with roots.folder(folder.parent, make=True):
            pass
        return folder, uploads.store(folder, sent, "", config.limits)
    return folder, _store(folder, sent, config.limits)


def _store(folder: Path, sent: list[UploadFile], limits: Limits) -> uploads.Stored:
    """Writes uploaded images, and those in archives, into a new folder, with the last parts of their names."""
    stored, bytes_ = uploads.Stored(), 0
    with roots.folder(folder, make=True) as opened:
        for number, (name, content) in enumerate(uploads.files(sent, limits)):
            if uploads.SKIPPED.search(name):
                continue
            if not uploads.suffix(content) and not name.lower().endswith(ENDINGS):
                stored.leave_out(name)
                continue
            bytes_ += len(content)
            if bytes_ > limits.upload or number >= limits.files:
                expected = f"at most {limits.files} files with {limits.upload} bytes in all"
                raise CaffeliteError("there are too many pictures", expected=expected)
            with open(opened / f"{number:06d}_{uploads.safe_name(Path(name).name or 'image')}", "xb") as file:
                file.write(content)
    return stored


ROUTES = [page.action("/try/many", many)]
