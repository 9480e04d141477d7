"""The interfaces of plugins: data, views, policies, embeddings, parameters, seeds.

``ope_bench`` exports the public names; plugins import them from there.
"""
