"""Tasks pose problems and say how a response is read; see `make_task` for the names and docs of `base.Task` for your own."""

from es_mpi.tasks.base import Split, Task
from es_mpi.tasks.prompts import Tokenizer, encode_prompts, load_tokenizer
from es_mpi.tasks.registry import TASKS, make_task

__all__ = ["TASKS", "Split", "Task", "Tokenizer", "encode_prompts", "load_tokenizer", "make_task"]
