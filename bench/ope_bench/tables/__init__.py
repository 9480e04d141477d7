"""Tables from CSV, ARFF and Parquet files; an error names the row and the column."""
