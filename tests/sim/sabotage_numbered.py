"""Sabotages of what is done about answers that speak of something else, about damaged numbered files, and about topics
that are over or announced by nobody."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_NUMBERED_FILES"]

OF_NUMBERED_FILES = (
    Sabotage(
        "what exists is surely not our own",
        "P1",
        "manifest/commit_point.py",
        "        attempt.open_number, attempt.nonce = target.number, value.nonce\n"
        "        if outcome is Outcome.CREATED:\n",
        "        if outcome is not Outcome.EXISTS:\n            "
        "attempt.open_number, attempt.nonce = target.number, value.nonce\n        if outcome is Outcome.CREATED:\n",
    ),
    Sabotage(
        "a refused create surely stored nothing",
        "P1",
        "manifest/commit_point.py",
        "        return Outcome.EXISTS, error\n",
        "        raise\n",
        test="tests/protocol/test_p01_sent_twice.py::test_a_refusal_of_what_is_stored_already_is_none",
    ),
    Sabotage(
        "a refused create that cannot be looked for stored nothing",
        "P1",
        "manifest/commit_point.py",
        "                raise refusal from None\n",
        "                attempt.open_number, attempt.nonce = before\n                raise refusal from None\n",
        test="tests/protocol/test_p01_sent_twice.py"
        "::test_a_refusal_of_what_cannot_be_read_may_be_that_of_a_second_request",
    ),
    Sabotage(
        "a refused create that is there is certain before its boundary was asked",
        "P4",
        "manifest/commit_point.py",
        "        if found is Settled.GONE:\n",
        "        if refusal is not None:\n            attempt.open_number, attempt.nonce = before\n"
        "        if found is Settled.GONE:\n",
        test="tests/protocol/test_p01_sent_twice.py"
        "::test_whatever_fails_after_a_refusal_of_what_is_stored_it_may_have_happened",
    ),
    Sabotage(
        "a rival's file at a dead number closes the question",
        "P4",
        "manifest/commit_point.py",
        "            return (Settled.OURS, None) if found.body == body else (Settled.TAKEN, found)\n",
        "            if found.body != body:\n                attempt.open_number = 0\n"
        "            return (Settled.OURS, None) if found.body == body else (Settled.TAKEN, found)\n",
        test="tests/protocol/test_p01_sent_twice.py::test_what_is_at_a_dead_number_says_nothing_of_ours",
    ),
    Sabotage(
        "a file whose checksum is damaged is a rival's",
        "P1",
        "manifest/commit.py",
        "        return None if taken.value is None or taken.value.nonce == nonce else taken\n",
        "        return taken\n",
        test="tests/protocol/test_p01_sent_twice.py::test_one_flipped_bit_does_not_make_our_own_file_a_rivals",
    ),
    Sabotage(
        "what was never sent is in doubt",
        "P1",
        "manifest/commit_point.py",
        "    except (NotAsked, Closed):\n        raise\n",
        "",
        test="tests/protocol/test_p01_sent_twice.py::test_what_was_never_sent_did_not_happen",
    ),
    Sabotage(
        "what came after a lost race lived",
        "P3",
        "manifest/commit.py",
        "(found is not taken and found.number <= await self.dead())",
        "(found is not taken and found.number <= 0)",
        test="tests/protocol/test_p03_head_search.py::test_an_edit_is_not_found_in_what_did_not_live",
    ),
    Sabotage(
        "what is there after the boundary was read was there before",
        "P3",
        "manifest/commit.py",
        "if found is not None and (not found.tag or found.tag != there.tag):",
        "if found is not None and not found.tag:",
        test="tests/protocol/test_p03_head_search.py::test_a_head_is_what_was_there_when_the_boundary_was_below_it",
    ),
    Sabotage(
        "whatever is at a pinned number is what was pinned",
        "P20",
        "manifest/partition.py",
        "return version if any(pin.manifest == version.number for pin in version.value.checkpoints) else None",
        "return version",
        test="tests/protocol/test_p20_created_anew.py::test_what_is_there_anew_takes_nothing_along",
    ),
    Sabotage(
        "a dead number is shown that nothing pinned",
        "P20",
        "manifest/partition.py",
        "return version if number > dead else _if_pinned(version)",
        "return version",
        test="tests/protocol/test_p20_created_anew.py::test_a_dead_number_is_shown_only_while_it_holds_what_was_pinned",
    ),
    Sabotage(
        "a manifest mended by hand is believed whatever its run lists hold",
        "P23",
        "manifest/commit.py",
        "        check_repaired(value, body, self.chain.key(version.number))\n",
        "",
        test="tests/protocol/test_p03_head_search.py::test_what_no_reader_believes_no_writer_builds_on",
    ),
    Sabotage(
        "an older boundary of a later release stops the collector",
        "P17",
        "gc/collect.py",
        "await files.boundary.glance(",
        "await files.boundary.read(",
        test="tests/protocol/test_p17_grace.py::test_an_older_boundary_that_cannot_be_read_only_makes_collection_wait",
    ),
    Sabotage(
        "an older version of a topic that a later release wrote hides its lives",
        "P21",
        "gc/lives.py",
        "except (Corrupt, LaterFormat) as error",
        "except Corrupt as error",
        test="tests/manifest/test_ended.py"
        "::test_an_older_version_that_cannot_be_read_is_named_and_stops_no_collection_and_hides_no_later_life",
    ),
    Sabotage(
        "a damaged file is read as it is",
        "P2",
        "manifest/codec.py",
        "if seal is not None and xxhash",
        "if seal is not None and not seal and xxhash",
    ),
    Sabotage(
        "a damaged head is taken for absent",
        "P3",
        "manifest/commit.py",
        "        except (Corrupt, LaterFormat):\n            return Version(number, None)\n",
        "        except (Corrupt, LaterFormat):\n            return None\n",
        focus="damaged files",
    ),
    Sabotage(
        "the largest number of a page is the head",
        "P3",
        "manifest/listed.py",
        "is_end=True) if after is None else Begin(last + 1, since, after)\n",
        "is_end=True)\n",
    ),
    Sabotage(
        "the largest number of a page needs no boundary",
        "P3",
        "manifest/commit.py",
        "                dead, found = await self._read_beside(found)\n",
        "                stored = found.stored\n"
        "                dead, found = await self._read_beside(found)\n"
        "                dead = 0 if stored is not None else dead\n",
        test="tests/protocol/test_p03_first_search.py::test_what_is_collected_after_the_listing_is_not_the_head",
    ),
    Sabotage(
        "a listed number counts although others below it were not",
        "P3",
        "manifest/commit.py",
        "        if there.since > dead + 1:\n            return dead, None\n",
        "",
        test="tests/protocol/test_p03_first_search.py::test_a_number_above_a_gap_is_nobodys_head",
    ),
    Sabotage(
        "an absent number below one that is there ends a search",
        "P3",
        "manifest/gallop.py",
        "if not there and number > reached)",
        "if not there)",
    ),
    Sabotage(
        "a topic is created again without a mark",
        "P21",
        "manifest/catalog.py",
        "await say_again(name, newest.number)",
        "pass",
    ),
    Sabotage(
        "a sweep deletes the latest mark",
        "P21",
        "manifest/ended.py",
        "former.append(min(before, (number, each.key))[1])",
        "former.append(max(before, (number, each.key))[1])",
    ),
    Sabotage(
        "a topic is over before its bytes are gone",
        "P21",
        "gc/collect.py",
        "        finished=manifest.sealed\n"
        "        and not (_has_waiting(manifest) or freed)\n"
        "        and not waits(manifest, boundary.value, files.compactor.seen.number, files.homes),\n",
        "        finished=manifest.sealed,\n",
    ),
    Sabotage(
        "what nobody announced is left behind",
        "P21",
        "gc/unannounced.py",
        "folders, have_witnesses = await _folders(name)\n",
        "folders, have_witnesses = list[PartitionKeys](), list[str]()\n",
    ),
    Sabotage(
        "a slow creator keeps its number",
        "P21",
        "gc/unannounced.py",
        "may_announce = not dry_run and",
        "may_announce = dry_run and",
        focus="deleted",
    ),
)
