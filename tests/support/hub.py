"""A stand-in for the Hugging Face hub on this machine: repositories, commits and downloads, as huggingface_hub asks."""

import base64
import hashlib
import http.server
import json
import re
import threading
from contextlib import contextmanager


class Hub:
    """What is stored, and what was asked for."""

    def __init__(self):
        self.repositories = {}  # name -> branch -> path -> content
        self.private = set()
        self.messages = []  # of the commits
        self.asked = []
        self.token = "secret"
        self.address = ""

    def commit_of(self, name, revision):
        """A number of 40 digits for the state of a branch."""
        content = self.repositories[name][revision]
        return hashlib.sha1(repr(sorted(content.items())).encode()).hexdigest()

    def branch(self, name, revision):
        """The branch that a name, or a commit, stands for; ``None`` if there is none."""
        for branch in self.repositories.get(name, {}):
            if revision in (branch, self.commit_of(name, branch)):
                return branch
        return None


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        hub, path = self.server.hub, self.path.partition("?")[0]
        hub.asked.append((self.command, path))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/([^/]+))?", path):
            self._repository(hub, match[1], match[2] or "main", "/tree/" in path)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(hub, *match.groups())
        else:
            self._error(404, "EntryNotFound")

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def do_POST(self):
        hub, path = self.server.hub, self.path.partition("?")[0]
        hub.asked.append((self.command, path))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != f"Bearer {hub.token}":
            self._error(401, "", "Invalid username or password.")
        elif path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            if name in hub.repositories:
                self._answer({"url": f"{hub.address}/{name}"}, 409)
                return
            hub.repositories[name] = {"main": {}}
            hidden = asked.get("private") or asked.get("visibility") == "private"  # former and later versions
            hub.private |= {name} if hidden else set()
            self._answer({"url": f"{hub.address}/{name}"})
        elif path == "/api/validate-yaml":  # the front matter of a model card
            self._answer({"errors": [], "warnings": []})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/branch/(.+)", path):
            hub.repositories[match[1]][match[2]] = dict(hub.repositories[match[1]]["main"])
            self._answer({})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/(.+)", path):
            files = [{**file, "uploadMode": "regular"} for file in json.loads(body)["files"]]
            keys = ("path", "uploadMode")
            self._answer(
                {"files": [{**{key: file[key] for key in keys}, "shouldIgnore": False} for file in files]}
            )
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/(.+)", path):
            self._commit(hub, *match.groups(), [json.loads(line) for line in body.splitlines()])
        else:
            self._error(404, "EntryNotFound")

    def _commit(self, hub, name, branch, lines):
        for line in lines:
            if line["key"] == "header":
                hub.messages.append(line["value"]["summary"])
            else:
                content = base64.b64decode(line["value"]["content"])
                hub.repositories[name][branch][line["value"]["path"]] = content
        commit = hub.commit_of(name, branch)
        self._answer(
            {"success": True, "commitOid": commit, "commitUrl": f"{hub.address}/{name}/commit/{commit}"}
        )

    def _repository(self, hub, name, revision, tree):
        known = hub.branch(name, revision)
        hidden = name in hub.private and self.headers.get("Authorization") != f"Bearer {hub.token}"
        if name not in hub.repositories or hidden:
            self._error(401, "RepoNotFound", "Repository Not Found")
        elif known is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            files = hub.repositories[name][known]
            if tree:
                self._answer(
                    [{"type": "file", "path": p, "oid": "0" * 40, "size": len(c)} for p, c in files.items()]
                )
                return
            names = [{"rfilename": path} for path in files]
            self._answer({"id": name, "sha": hub.commit_of(name, known), "siblings": names})

    def _file(self, hub, name, revision, path):
        branch = hub.branch(name, revision)
        if branch is None or path not in hub.repositories[name][branch]:
            self._error(404, "EntryNotFound")
            return
        content = hub.repositories[name][branch][path]
        tag = hashlib.sha1(content).hexdigest()
        self._send(200, content, {"ETag": f'"{tag}"', "X-Repo-Commit": hub.commit_of(name, branch)})

    def _answer(self, content, status=200):
        self._send(status, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _error(self, status, code, message=""):
        self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": message})

    def _send(self, status, content, headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args):
        pass


@contextmanager
def hub():
    """A hub that is up until the end of the block."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = Hub()
    server.hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
