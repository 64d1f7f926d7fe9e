import os
import shutil
import subprocess
import tarfile
from importlib.resources import files as resources_of
from pathlib import Path

import pytest
from graphql import GraphQLSchema, build_schema, graphql_sync

from holdfast.github.graphql import GraphqlDocument, build_branch_query, build_commit_query
from holdfast.github.graphql_writes import build_commit
from holdfast.github.write_calls import CommitFiles

PUBLISHED_SCHEMA = "@octokit/graphql-schema@15.26.1"
NPM_TIME_LIMIT_S = 60

SHA = "a" * 40
PATHS = ("runs/a.json", 'quo"te$p0{}.json', "ü.json")

DOCUMENTS = {
    "commit": build_commit(
        CommitFiles("main", SHA, "Headline", "Body", dict.fromkeys(PATHS, b"{}"), ("old.json",)), "owner/name"
    ),
    "commit of deletions": build_commit(
        CommitFiles("main", SHA, "Headline", "", {}, ("old.json",)), "owner/name"
    ),
    "branch": build_branch_query("feature/x", PATHS, "owner/name"),
    "branch alone": build_branch_query("main", (), "owner/name"),
    "files of a commit": build_commit_query(SHA, PATHS, "owner/name"),
}

every_document = pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)


@pytest.fixture(scope="module")
def published_schema(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> GraphQLSchema:
    """GitHub's own schema: from HOLDFAST_GITHUB_SCHEMA, from an earlier run, or from the npm registry."""
    given = os.environ.get("HOLDFAST_GITHUB_SCHEMA")
    if given:
        return build_schema(Path(given).read_text(encoding="utf-8"), assume_valid=True)
    kept = pytestconfig.cache.mkdir("github-schema") / f"{PUBLISHED_SCHEMA.rsplit('@', 1)[1]}.graphql"
    if not kept.exists():
        download_schema(kept, tmp_path_factory.mktemp("npm"))
    return build_schema(kept.read_text(encoding="utf-8"), assume_valid=True)


def download_schema(kept: Path, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, and HOLDFAST_GITHUB_SCHEMA is not set")
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), PUBLISHED_SCHEMA]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=NPM_TIME_LIMIT_S, cwd=folder)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("the npm registry cannot be reached, and HOLDFAST_GITHUB_SCHEMA is not set")
    with tarfile.open(next(folder.glob("*.tgz"))) as package:
        schema = package.extractfile("package/schema.graphql")
        assert schema is not None
        whole = folder / "schema.graphql"
        whole.write_bytes(schema.read())
    shutil.move(whole, kept)


@pytest.fixture(scope="module")
def emulated_schema() -> GraphQLSchema:
    text = resources_of("holdfast.emulator").joinpath("schema.graphql").read_text(encoding="utf-8")
    return build_schema(text)


def problems(schema: GraphQLSchema, document: GraphqlDocument) -> list[str]:
    """Return what is wrong with the document or its variables; with no resolvers, all answers are null."""
    result = graphql_sync(schema, document.text, variable_values=document.variables)
    return [error.message for error in result.errors or []]


@pytest.mark.slow
@every_document
def test_document_is_valid_by_github_s_published_schema(
    published_schema: GraphQLSchema, document: GraphqlDocument
) -> None:
    assert problems(published_schema, document) == []


@every_document
def test_document_is_valid_by_the_emulator_s_schema(
    emulated_schema: GraphQLSchema, document: GraphqlDocument
) -> None:
    assert problems(emulated_schema, document) == []


def test_validation_notices_a_field_that_is_not_there(emulated_schema: GraphQLSchema) -> None:
    assert problems(emulated_schema, GraphqlDocument("{ nothing }", {})) != []


@every_document
def test_paths_are_never_part_of_the_text(document: GraphqlDocument) -> None:
    assert not any(path in document.text for path in PATHS)


def test_commit_without_a_body_sends_none() -> None:
    assert DOCUMENTS["commit of deletions"].variables["input"]["message"] == {"headline": "Headline"}
