"""Runs that are mirrored and data at a URL: what would be lost, mixed up, or that of another file, without a word."""

from put_back import PutBack

MIRROR, SNAPSHOT, PLACE = (f"tests/execution/test_{name}.py" for name in ("mirror", "snapshot", "place"))
ARRAYS, CACHE = "tests/data_loading/test_remote_arrays.py", "tests/utils/test_block_cache.py"
STREAMS = "tests/training/test_streams.py"

POINTS = [
    PutBack(
        point="stores",
        what="the index of a mirror is written before what it names",
        file="delira/execution/mirror.py",
        old=(
            "        left_out = self._put_pending(is_last)\n"
            "        files = {name: entry for name, entry in files.items() if name not in left_out}\n"
            "        if self._index is None or (dict(self._index.files), dict(self._index.left)) != (files, left):\n"
            "            self._write_index(files, left)\n"
        ),
        new=(
            "        if self._index is None or (dict(self._index.files), dict(self._index.left)) != (files, left):\n"
            "            self._write_index(files, left)\n"
            "        left_out = self._put_pending(is_last)\n"
        ),
        test=f"{MIRROR}::test_what_is_there_is_whole_at_every_instant",
    ),
    PutBack(
        point="stores",
        what="a content that is written into while it is copied has the checksum of before",
        file="delira/execution/mirror.py",
        old="if not staged.is_same():",
        new="if False:",
        test=f"{MIRROR}::test_what_is_written_into_while_it_is_copied_is_not_stored_as_what_it_was",
    ),
    PutBack(
        point="stores",
        what="an index names a file that was written into while it was copied",
        file="delira/execution/mirror.py",
        old="files = {name: entry for name, entry in files.items() if name not in left_out}",
        new="files = dict(files)",
        test=f"{MIRROR}::test_what_is_written_into_while_it_is_copied_is_not_stored_as_what_it_was",
    ),
    PutBack(
        point="stores",
        what="a folder that was copied writes into the same copy as the one that it was copied from",
        file="delira/execution/mirror.py",
        old="if newest != claim.copy or max(serials, default=0) > claim.serial:",
        new="if newest != claim.copy:",
        test=f"{MIRROR}::test_a_copy_of_a_folder_that_goes_on_into_the_same_copy_is_stopped",
    ),
    PutBack(
        point="stores",
        what="what the store lost of what it had is not missed at the end",
        file="delira/execution/mirror.py",
        old="there = self._place.objects(self._claim.copy)",
        new="there = self._stored",
        test=f"{MIRROR}::test_what_a_delete_took_that_was_given_up_and_came_late_is_there_at_the_end",
    ),
    PutBack(
        point="stores",
        what="of two runs that begin at once each has the place for whoever looks at the right moment",
        file="delira/execution/place.py",
        old='if len({*runs.values()} - {""}) < 2:',
        new="if True:",
        test=f"{PLACE}::test_of_two_runs_at_one_place_it_is_that_of_one_whoever_looks",
    ),
    PutBack(
        point="stores",
        what="a run that loses its place to another one ends well",
        file="delira/execution/mirror.py",
        old='if newest != claim.copy and self._place.run_of(newest) not in ("", claim.run):',
        new="if False:",
        test=f"{MIRROR}::test_who_loses_the_place_once_it_has_begun_ends_with_an_error_at_once",
    ),
    PutBack(
        point="stores",
        what="a run that is further here than in its mirror is set back",
        file="delira/execution/fetching.py",
        old='return f"{here} here, {there} there" if here > there else ""',
        new='return ""',
        test="tests/experiments/test_mirroring.py::test_a_run_that_is_further_here_than_where_it_went_on_is_kept",
    ),
    PutBack(
        point="stores",
        what="names of folders in a store lead out of the folder that a run is fetched into",
        file="delira/execution/store.py",
        old="for name in sorted(name for name in names if not is_plain(name)):",
        new="for name in ():",
        test=f"{PLACE}::test_names_that_lead_elsewhere_are_not_followed",
    ),
    PutBack(
        point="stores",
        what="what could not be copied at the end of a run is no error",
        file="delira/execution/mirror.py",
        old="pause, is_done = self._failed(error), False",
        new="pause, is_done = self._failed(error), True",
        test=f"{MIRROR}::test_what_is_missing_at_the_end_is_named",
    ),
    PutBack(
        point="stores",
        what="what the machine that goes on did not need is deleted in the store",
        file="delira/execution/mirror.py",
        old="for entry in index.all.values()}",
        new="for entry in index.files.values()}",
        test="tests/experiments/test_mirroring.py::test_a_run_goes_on_from_its_mirror_on_an_empty_disk[memory]",
    ),
    PutBack(
        point="stores",
        what="files of a fold that changed while it was looked at are copied together",
        file="delira/execution/snapshot.py",
        old="if is_staged and again == marks:",
        new="if is_staged:",
        test=f"{SNAPSHOT}::test_what_a_run_resumes_from_is_left_for_later_if_it_never_rests",
    ),
    PutBack(
        point="stores",
        what="a text file of a user is cut at its last line feed in the mirror",
        file="delira/execution/snapshot.py",
        old="if (is_of_lines or is_written) and not is_log:",
        new="if not is_log:",
        test=f"{SNAPSHOT}::test_a_file_of_a_user_that_rests_is_copied_to_its_end",
    ),
    PutBack(
        point="stores",
        what="the ledger is looked at after the folds, and names what is not copied",
        file="delira/execution/snapshot.py",
        old=(
            '        parts, logs = [""], []\n'
            "        for part in parts:  # which grows: those in a part are listed when it was seen\n"
            "            look = self._part(part, stored)\n"
            "            found |= {name: self._known[name][1] for name in look.marks}\n"
            "            parts += sorted(look.parts)\n"
        ),
        new=(
            '        parts, logs = [*sorted(self._look("").parts), ""], []\n'
            "        for part in parts:\n"
            "            look = self._part(part, stored)\n"
            "            found |= {name: self._known[name][1] for name in look.marks}\n"
        ),
        test=f"{SNAPSHOT}::test_what_a_ledger_names_is_seen_with_it[fold_00]",
    ),
    PutBack(
        point="stores",
        what="who joins a run is refused where another process copies the folder in that moment",
        file="delira/execution/place.py",
        old=(
            "        newest, serial = self.newest_serial()\n"
            "        claim = Claim.of(folder)\n"
            "        run = self.run()\n"
        ),
        new=(
            "        claim = Claim.of(folder)\n"
            "        run = self.run()\n"
            "        newest, serial = self.newest_serial()\n"
        ),
        test=f"{PLACE}::test_who_joins_while_another_process_copies_the_folder_is_let_in",
    ),
    PutBack(
        point="stores",
        what="two runs are mirrored to one place",
        file="delira/execution/place.py",
        old="if run and (claim is None or claim.run != run):",
        new="if False:",
        test=f"{PLACE}::test_another_run_is_refused",
    ),
    PutBack(
        point="stores",
        what="what comes from a store is not compared with its checksum",
        file="delira/execution/place.py",
        old="if digest.hexdigest() != entry.sha256:",
        new="if False:",
        test=f"{PLACE}::test_what_is_damaged_is_not_fetched",
    ),
    PutBack(
        point="stores",
        what="a half or damaged file that was fetched has its name",
        file="delira/execution/place.py",
        old="        files.publish(folder / name, write)\n",
        new=(
            "        (folder / name).parent.mkdir(parents=True, exist_ok=True)\n"
            '        with open(folder / name, "wb") as file:\n'
            "            write(file)\n"
        ),
        test=f"{PLACE}::test_what_is_damaged_is_not_fetched",
    ),
    PutBack(
        point="stores",
        what="half a run that was fetched has its folder",
        file="delira/execution/fetching.py",
        old="folder = target.parent / FETCHING / target.name",
        new="folder = target",
        test=f"{PLACE}::test_a_run_that_is_fetched_has_its_folder_when_all_of_it_is_there",
    ),
    PutBack(
        point="stores",
        what="a run goes on from a folder whose renewal from a mirror was broken off",
        file="delira/runs/folder.py",
        old="        refuse_in_parts(self.path)\n",
        new="",
        test="tests/experiments/test_mirroring.py::"
        "test_a_folder_whose_renewal_was_broken_off_is_of_two_moments_and_nothing_goes_on_from_it",
    ),
    PutBack(
        point="stores",
        what="a run that went on elsewhere keeps checkpoints of before beside those of now",
        file="delira/execution/fetching.py",
        old="if name not in index.all and not _ASIDE.search(name):",
        new="if False:",
        test=f"{PLACE}::test_checkpoints_of_another_state_are_set_aside",
    ),
    PutBack(
        point="stores",
        what="blocks of a file that has changed since are those of the one before",
        file="delira/data_loading/remote.py",
        old='self._name = f"{named_by(address.url)} {self.stamp}"',
        new="self._name = named_by(address.url)",
        test=f"{ARRAYS}::test_files_of_another_name_or_content_are_not_taken_for_each_other",
    ),
    PutBack(
        point="stores",
        what="a store is asked before a fetch whether a file has changed, not after it",
        file="delira/data_loading/remote.py",
        old=(
            '        content = self.address.fetch(start, stop) if stop > start else b""\n'
            "        # asked afterwards: what came before a change is not told from what came after it\n"
            "        about = self.address.about()\n"
        ),
        new=(
            "        about = self.address.about()\n"
            '        content = self.address.fetch(start, stop) if stop > start else b""\n'
        ),
        test=f"{ARRAYS}::test_a_block_of_a_new_file_is_not_kept_as_one_of_the_old",
    ),
    PutBack(
        point="stores",
        what="an answer that is too short is taken for all of it",
        file="delira/data_loading/remote.py",
        old="if len(content) < stop - start:",
        new="if False:",
        test=f"{ARRAYS}::test_an_answer_that_is_too_short_is_none",
    ),
    PutBack(
        point="stores",
        what="a chunk that a server fails to give is an empty one",
        file="delira/data_loading/remote.py",
        old="if status in _MISSING or isinstance(error, FileNotFoundError):",
        new="if status is not None or isinstance(error, FileNotFoundError):",
        test=f"{ARRAYS}::test_a_chunk_of_a_store_that_fails_is_no_empty_chunk",
    ),
    PutBack(
        point="stores",
        what="samples are read where they were in a shard that has changed since",
        file="delira/data_loading/remote.py",
        old=(
            '        return self._cache.get(f"{self._name} {what}")\n'
            "\n"
            "    def keep(self, what: str, content: bytes) -> None:\n"
            '        """Keep what was made of the file; it goes as blocks go."""\n'
            '        self._cache.put(f"{self._name} {what}", content)\n'
        ),
        new=(
            '        return self._cache.get(f"{named_by(self.address.url)} {what}")\n'
            "\n"
            "    def keep(self, what: str, content: bytes) -> None:\n"
            '        self._cache.put(f"{named_by(self.address.url)} {what}", content)\n'
        ),
        test="tests/data_loading/test_shards.py::test_an_index_that_is_kept_is_that_of_the_shard_as_it_is",
    ),
    PutBack(
        point="stores",
        what="a block of the cache is not compared with its checksum",
        file="delira/utils/block_cache.py",
        old="if _sum(name, content) != stored[:_SUM]:",
        new="if False:",
        test=f"{CACHE}::test_a_damaged_block_is_not_believed[flipped]",
    ),
    PutBack(
        point="stores",
        what="a cache of blocks grows beyond its bound",
        file="delira/utils/block_cache.py",
        old="if used is None or used + more > self.size:",
        new="if used is None:",
        test=f"{CACHE}::test_those_that_nobody_read_for_the_longest_time_go",
    ),
    PutBack(
        point="stores",
        what="a stream that is read again after a stop trains on most of it twice",
        file="delira/data_loading/stream.py",
        old="wanted = self._n_given if self.batch_size is None else self._n_samples",
        new="wanted = self._n_given",
        test=f"{STREAMS}::test_skipping_reads_up_to_the_place_and_says_so_once",
    ),
    PutBack(
        point="stores",
        what="a validation on the stream of the training moves it",
        file="delira/data_loading/stream.py",
        old="self.load_state_dict(before)",
        new="pass",
        test=f"{STREAMS}::test_a_validation_leaves_a_stream_where_it_was",
    ),
    PutBack(
        point="stores",
        what="what skip and take made of one dataset share where they stand",
        file="delira/data_loading/stream.py",
        old="    return copy.deepcopy(stream, memo)",
        new="    return stream",
        test=f"{STREAMS}::test_a_validation_of_the_same_data_moves_no_place_to_go_on_from[one dataset]",
    ),
    PutBack(
        point="stores",
        what="a shuffle buffer inside of interleaved datasets is not seen",
        file="delira/data_loading/stream.py",
        old='        found += held.get("ex_iterables") or []\n',
        new="",
        test=f"{STREAMS}::test_a_place_that_is_in_no_state_of_hugging_face_is_read_up_to[interleaved]",
    ),
    PutBack(
        point="stores",
        what="a place at the end of an epoch is kept as that of the next one",
        file="delira/data_loading/stream.py",
        old='            self._pending["in_epoch"] = 0',
        new="            pass",
        test=f"{STREAMS}::test_a_place_at_the_end_of_an_epoch_is_one_at_the_beginning_of_the_next",
    ),
    PutBack(
        point="stores",
        what="a cache of blocks removes files of others from its folder",
        file="delira/utils/block_cache.py",
        old="if not re.fullmatch(_BLOCK, entry.name):",
        new="if False:",
        test=f"{CACHE}::test_files_of_others_in_its_folder_are_neither_removed_nor_counted",
    ),
    PutBack(
        point="stores",
        what="cached samples of zarr elsewhere are known by some chunks",
        file="delira/data_loading/mapped_dataset.py",
        old="return _content.fingerprint_of(all_stamps_of(self._array))",
        new="return _content.fingerprint_of(self.glance())",
        test=f"{ARRAYS}::test_any_chunk_elsewhere_that_was_written_anew_has_samples_made_again[file]",
    ),
]
