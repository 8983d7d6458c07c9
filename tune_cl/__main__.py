from tune_cl.cli import console

console()
