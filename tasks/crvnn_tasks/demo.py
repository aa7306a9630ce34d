import click
@click.command()
def demo(): pass
