"""A stand-in for the Hugging Face hub on this machine: repositories, commits and downloads, as huggingface_hub asks."""

import base64
import hashlib
import json
import re

from attrs import Factory, define

from serving import Handler, up


@define
class Hub:
    """What is stored."""

    repositories: dict = Factory(dict)  # name -> branch -> path -> content
    private: set = Factory(set)
    messages: list = Factory(list)  # of the commits
    token: str = "secret"
    address: str = ""

    def commit_of(self, name, revision):
        """A number of 40 digits for the state of a branch."""
        content = self.repositories[name][revision]
        return hashlib.sha1(repr(sorted(content.items())).encode()).hexdigest()

    def branch(self, name, revision):
        """The branch that a name, or a commit, stands for; ``None`` if there is none."""
        known = self.repositories.get(name, {})
        return next((each for each in known if revision in (each, self.commit_of(name, each))), None)


class _HubHandler(Handler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802 - http.server's name
        path = self.path.partition("?")[0]
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/([^/]+))?", path):
            self._repository(self.server.state, match[1], match[2] or "main", "/tree/" in path)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(self.server.state, *match.groups())
        else:
            self._error(404, "EntryNotFound")

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def do_POST(self):  # noqa: N802
        hub, path = self.server.state, self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        action = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(branch|preupload|commit)/(.+)", path)
        if not self._has_access(hub):
            self._error(401, "", "Invalid username or password.")
        elif path == "/api/repos/create":
            self._create(hub, json.loads(body))
        elif path == "/api/validate-yaml":  # the front matter of a model card
            self._json({"errors": [], "warnings": []})
        elif action is None:
            self._error(404, "EntryNotFound")
        elif action[2] == "branch":
            hub.repositories[action[1]][action[3]] = dict(hub.repositories[action[1]]["main"])
            self._json({})
        elif action[2] == "preupload":
            plain = {"uploadMode": "regular", "shouldIgnore": False}
            self._json({"files": [{"path": file["path"], **plain} for file in json.loads(body)["files"]]})
        else:
            self._commit(hub, action[1], action[3], map(json.loads, body.splitlines()))

    def _has_access(self, hub):
        return self.headers.get("Authorization") == f"Bearer {hub.token}"

    def _create(self, hub, wanted):
        name = f"{wanted['organization']}/{wanted['name']}"
        new = name not in hub.repositories
        if new:
            hub.repositories[name] = {"main": {}}
            if wanted.get("private") or wanted.get("visibility") == "private":  # former and later versions
                hub.private.add(name)
        self._json({"url": f"{hub.address}/{name}"}, 200 if new else 409)

    def _commit(self, hub, name, branch, lines):
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                hub.messages.append(value["summary"])
            else:
                hub.repositories[name][branch][value["path"]] = base64.b64decode(value["content"])
        commit = hub.commit_of(name, branch)
        url = f"{hub.address}/{name}/commit/{commit}"
        self._json({"success": True, "commitOid": commit, "commitUrl": url})

    def _repository(self, hub, name, revision, tree):
        known = hub.branch(name, revision)
        if name not in hub.repositories or (name in hub.private and not self._has_access(hub)):
            self._error(401, "RepoNotFound", "Repository Not Found")
        elif known is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif tree:
            files = hub.repositories[name][known].items()
            self._json([{"type": "file", "path": p, "oid": "0" * 40, "size": len(c)} for p, c in files])
        else:
            names = [{"rfilename": path} for path in hub.repositories[name][known]]
            self._json({"id": name, "sha": hub.commit_of(name, known), "siblings": names})

    def _file(self, hub, name, revision, path):
        branch = hub.branch(name, revision)
        if branch is None or path not in hub.repositories[name][branch]:
            self._error(404, "EntryNotFound")
            return
        content = hub.repositories[name][branch][path]
        tag = f'"{hashlib.sha1(content).hexdigest()}"'
        self.respond(200, content, ETag=tag, X_Repo_Commit=hub.commit_of(name, branch))

    def _json(self, content, status=200):
        self.respond(status, json.dumps(content).encode(), Content_Type="application/json")

    def _error(self, status, code, message=""):
        self.respond(status, X_Error_Code=code, X_Error_Message=message)


def hub():
    """A hub that is up until the end of the block."""
    return up(_HubHandler, Hub())
