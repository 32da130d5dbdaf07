"""LookupConfig: attributes, dotted keys, lookup at any depth."""

import copy
import pickle
from collections import OrderedDict

import pytest

from delira.errors import ConfigError, MissingKeyError
from delira.utils.config import LookupConfig


@pytest.fixture
def config():
    return LookupConfig({"model": {"n_classes": 10, "blocks": [{"width": 8}, {"width": 16}]}, "training": {"lr": 0.1}})


# ---- attributes


def test_entries_are_read_written_and_deleted_as_attributes(config):
    assert config.training.lr == 0.1
    config.training.num_epochs = 3
    assert config["training"]["num_epochs"] == 3
    del config.training.lr
    assert config == {"model": config.model, "training": {"num_epochs": 3}}


@pytest.mark.parametrize(
    "put",
    [
        lambda config, value: setattr(config, "new", value),
        lambda config, value: config.__setitem__("new", value),
        lambda config, value: config.update({"new": value}),
        lambda config, value: config.setdefault("new", value),
        lambda config, value: config.__ior__({"new": value}),
    ],
)
def test_a_plain_dictionary_becomes_a_config_however_it_is_put_in(config, put):
    put(config, {"a": {"b": 1}})
    assert type(config.new.a) is LookupConfig
    assert config.new.a.b == 1


def test_lists_and_other_kinds_of_dictionaries_stay_the_objects_they_are():
    layers, ordered = [{"width": 1}], OrderedDict(a=1)
    config = LookupConfig(layers=layers, ordered=ordered)
    assert config.layers is layers
    assert config.ordered is ordered
    assert config["ordered.a"] == 1
    config["ordered.b"] = 2
    del config["ordered.a"]
    assert ordered == {"b": 2}


def test_a_missing_attribute_is_an_attribute_error_and_a_key_error_with_a_guess(config):
    for kind in (AttributeError, MissingKeyError, KeyError):
        with pytest.raises(kind, match="there is no 'trainin'; did you mean 'training'"):
            _ = config.trainin
    assert not hasattr(config, "other")
    with pytest.raises(AttributeError, match="did you mean 'lr'"):
        del config.training.lrr


def test_methods_stay_methods_and_entries_of_their_name_are_items():
    config = LookupConfig({"items": 1, "update": 2, "keys": 3})
    assert sorted(config.items()) == [("items", 1), ("keys", 3), ("update", 2)]
    assert config["items"] == 1
    with pytest.raises(ConfigError, match=r"'items' is a member of LookupConfig.*config\['items'\] = "):
        config.items = 5  # type: ignore[assignment,method-assign]
    config["items"] = 5
    assert config["items"] == 5


def test_editors_see_the_entries(config):
    assert {"model", "training", "nested_get"} <= set(dir(config))


# ---- dotted keys


def test_dotted_keys_read_write_contain_and_delete(config):
    assert config["training.lr"] == 0.1
    assert "training.lr" in config
    assert "training.momentum" not in config
    assert "training.lr.deeper" not in config
    config["training.schedule.gamma"] = 0.5
    assert config.training.schedule == {"gamma": 0.5}
    assert type(config.training.schedule) is LookupConfig
    del config["training.schedule.gamma"]
    assert config.training.schedule == {}
    assert config.get("training.momentum", 0.9) == 0.9
    assert config.pop("training.lr") == 0.1
    assert config.pop("training.lr", None) is None
    with pytest.raises(TypeError, match="pop takes one default, got 2"):
        config.pop("training.lr", 1, 2)
    assert config.setdefault("training.lr", 1) == config.setdefault("training.lr", 2) == 1


def test_dotted_keys_reach_into_lists(config):
    assert config["model.blocks.1.width"] == 16
    config["model.blocks.1.width"] = 32
    config["model.blocks.0"] = {"width": 4}
    assert config.model.blocks == [{"width": 4}, {"width": 32}]
    with pytest.raises(MissingKeyError, match=r"no '2' in 'model.blocks', a list of 2"):
        _ = config["model.blocks.2.width"]
    with pytest.raises(ConfigError, match="no position of a list of 2"):
        config["model.blocks.2"] = {}
    with pytest.raises(ConfigError, match=r"cannot set 'model\.blocks\.2\.width'"):
        config["model.blocks.2.width"] = 1
    with pytest.raises(ConfigError, match="position of a list"):
        del config["model.blocks.0"]


def test_keys_with_a_dot_survive_and_go_before_paths():
    config = LookupConfig(metrics={"mAP@0.5": 1, "e.g.": 2})
    assert list(config.metrics) == ["mAP@0.5", "e.g."]
    assert config.metrics["mAP@0.5"] == config["metrics.mAP@0.5"] == config.nested_get("mAP@0.5") == 1
    config.metrics["mAP@0.5"] = 3
    assert config.metrics == {"mAP@0.5": 3, "e.g.": 2}
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_missing_step_of_a_path_is_named_with_a_guess(config):
    with pytest.raises(MissingKeyError, match=r"^there is no 'trainig'; did you mean 'training'\?$"):
        _ = config["trainig.lr"]
    with pytest.raises(MissingKeyError, match=r"^there is no 'learning' in 'training'; known are 'lr'$"):
        del config["training.learning"]
    with pytest.raises(KeyError, match=r"no 'deep' in 'training.lr', which holds 0.1"):
        _ = config["training.lr.deep"]


def test_a_path_does_not_run_through_a_value(config):
    with pytest.raises(ConfigError, match=r"cannot set 'training.lr.start': 'training.lr' holds 0.1"):
        config["training.lr.start"] = 1
    assert config.training.lr == 0.1


def test_keys_that_are_no_strings_are_ordinary_keys():
    config = LookupConfig(class_weights={0: 1.5, 1: 2.0, (1, 2): "x"})
    assert config.class_weights[0] == 1.5
    assert config.to_dict() == {"class_weights": {0: 1.5, 1: 2.0, (1, 2): "x"}}
    assert 7 not in config.class_weights
    with pytest.raises(MissingKeyError, match="there is no 7; known are"):
        _ = config.class_weights[7]


# ---- lookup at any depth


def test_nested_get_finds_a_name_at_any_depth_of_dictionaries_and_lists(config):
    assert config.nested_get("lr") == 0.1
    assert config.nested_get("training.lr") == 0.1
    assert LookupConfig(a=[{"b": ({"c": 3},)}]).nested_get("c") == 3


def test_nested_get_takes_a_default_with_and_without_its_name(config):
    assert config.nested_get("momentum", 0.9) == config.nested_get("momentum", default=0.9) == 0.9
    assert config.nested_get("momentum", None) is None
    assert config.nested_get("training.momentum", None) is None
    with pytest.raises(TypeError, match="takes one default, got 2"):
        config.nested_get("momentum", 1, default=2)


def test_nested_get_without_default_guesses_what_was_meant(config):
    with pytest.raises(MissingKeyError, match=r"no 'n_clases' at any depth; did you mean 'n_classes'"):
        config.nested_get("n_clases")


def test_nested_get_refuses_a_name_that_is_there_twice_and_names_the_paths(config):
    with pytest.raises(KeyError, match=r"^'width' is there 2 times; ask for one of 'model.blocks.0.width', "):
        config.nested_get("width", default=1)
    assert config.nested_get("model.blocks.0.width") == 8


def test_nested_get_does_not_count_what_lies_inside_a_match():
    inner = {"losses": "inner"}
    assert LookupConfig(training={"losses": inner}).nested_get("losses") == inner


# ---- merging


def test_update_merges_dictionaries_and_leaves_its_argument_alone(config):
    other = {"training": {"num_epochs": 3}, "seed": 1}
    config.update(other)
    config.training.num_epochs = 4
    assert config.training == {"lr": 0.1, "num_epochs": 4}
    assert other == {"training": {"num_epochs": 3}, "seed": 1}


def test_update_from_a_config_shares_no_dictionary_with_it():
    source, target = LookupConfig(a={"b": {"c": 1}}), LookupConfig()
    target.update(source)
    target.a.b.c = 2
    assert source.a.b.c == 1


def test_update_copies_values_only_if_deep():
    values = [1]
    shallow, deep = LookupConfig(), LookupConfig()
    shallow.update({"a": {"b": values}})
    deep.update({"a": {"b": values}}, deep=True)
    assert shallow.a.b is values
    assert deep.a.b == values
    assert deep.a.b is not values


def test_update_leaves_ignored_names_out_at_any_depth(config):
    config.update({"training": {"lr": 5, "seed": 1}, "extra": {"lr": 5}}, ignore=["lr"])
    assert config.training == {"lr": 0.1, "seed": 1}
    assert config.extra == {}
    config.update({"training": {"lr": 6}, "extra": {"lr": 6}}, ignore="training.lr")
    assert (config.training.lr, config.extra.lr) == (0.1, 6)


def test_update_can_refuse_to_exchange_dictionaries_and_values_and_then_changes_nothing(config):
    before = config.deepcopy()
    with pytest.raises(
        ConfigError, match=r"'seed' \(1\) by a dictionary; 'training' \(a dictionary\) by 3.*allow_dict"
    ):
        LookupConfig(config, seed=1).update({"seed": {}, "training": 3}, allow_dict_overwrite=False)
    with pytest.raises(ConfigError, match=r"would replace 'training\.lr'"):
        config.update({"model": {"n_classes": 2}, "training": {"lr": {}}}, allow_dict_overwrite=False)
    assert config == before
    config.update({"training": {"lr": 0.2}}, allow_dict_overwrite=False)
    assert config.training.lr == 0.2
    config.update({"training": {"lr": {"start": 1}}})
    assert config.training.lr.start == 1


# ---- copies


def test_equality_is_that_of_dictionaries(config):
    assert config == config.to_dict()
    assert config != LookupConfig()


def test_copies_keep_the_class_and_have_their_own_dictionaries(config):
    config.training["values"] = [1]
    for twin in (copy.copy(config), config.copy()):
        assert type(twin) is type(twin.training) is LookupConfig
        twin.training.lr = 5
        assert config.training.lr == 0.1
        assert twin.training["values"] is config.training["values"]


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, LookupConfig.deepcopy, lambda config: pickle.loads(pickle.dumps(config))]
)
def test_deep_copies_and_pickles_keep_the_class_and_share_nothing(config, duplicate):
    config.training["values"] = [1]
    twin = duplicate(config)
    assert twin == config
    assert type(twin) is type(twin.training) is LookupConfig
    assert twin.training["values"] is not config.training["values"]


def test_deep_copies_keep_one_object_one_object():
    shared = [1]
    twin = LookupConfig(a={"b": shared}, c=shared).deepcopy()
    assert twin.a.b is twin.c


def test_to_dict_gives_plain_dictionaries_with_the_same_values(config):
    plain = config.to_dict()
    assert type(plain) is type(plain["model"]) is dict
    assert plain["model"]["blocks"] is config.model.blocks
